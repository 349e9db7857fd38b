"""Facts about single languages."""
