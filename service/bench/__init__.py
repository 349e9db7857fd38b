"""Benchmarks of a running server over HTTP: quality, consistency, load and attention."""
