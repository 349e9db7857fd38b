"""Turns files on disk into configs, models with their weights, and tokenizers."""
