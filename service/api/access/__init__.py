"""Decides which requests are allowed: by host, page, port and API key."""
