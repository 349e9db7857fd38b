"""DeepL's dialect: the routes under `/v2/` and `/v3/`."""
