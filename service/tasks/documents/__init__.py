"""The document task: reads an uploaded file, translates it and keeps the translation."""
