"""Answers HTTP. Each client protocol (dialect) has a file or a folder; the rest is shared code."""
