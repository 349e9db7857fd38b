"""Answers HTTP: one file or folder for each dialect, and the code that all dialects share."""
