"""Reads requests: bodies, parameters, inputs to embed, and the end of a connection."""
