"""The state that survives a restart: a SQLite file of counts, glossaries and suggestions."""
