"""`regard translate` and `regard embed`: files, folders and lines of text, by a server."""
