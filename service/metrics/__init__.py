"""Defines the metrics of the server and connects them with their sources."""
