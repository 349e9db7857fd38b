"""Translation by remote models: requests to OpenAI-compatible chat endpoints."""
