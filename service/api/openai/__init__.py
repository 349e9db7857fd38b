"""OpenAI's dialect: embeddings, and the list of models."""
