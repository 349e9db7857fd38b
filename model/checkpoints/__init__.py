"""Files on disk to configs, filled models and tokenizers."""
