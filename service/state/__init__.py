"""The state that survives a restart: glossaries, suggestions, and the usage of API keys."""
