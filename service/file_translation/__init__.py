"""`regard translate`: translates files, folders and lines of text with a running server."""
