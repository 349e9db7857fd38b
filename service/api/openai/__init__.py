"""OpenAI's dialect: the routes under `/v1/`, and `/embeddings`."""
