"""Measures a server with more work than it can compute at once."""
