"""The state that survives a restart: SQLite files of counts, glossaries and suggestions."""
