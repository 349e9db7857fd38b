"""OpenAI's dialect: embeddings, chat completions, and the list of models."""
