"""Decides which requests are allowed: by host, origin of the page, port and API key."""
