"""DeepL's dialect: the routes under `/v2/`."""
