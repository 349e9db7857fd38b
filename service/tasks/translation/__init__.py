"""The translation of texts: prepare, submit sentences, repair, put tags back, join."""
