"""`regard translate`: translates files, folders and lines with a running server."""
