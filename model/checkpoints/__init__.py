"""Reads files on disk into configs, filled models and tokenizers."""
