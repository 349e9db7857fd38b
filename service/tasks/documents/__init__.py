"""The document task: whole files, from an upload to the kept translation."""
