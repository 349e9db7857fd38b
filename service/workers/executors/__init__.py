"""One executor for each task kind."""
