"""Benchmarks seen from the client's side: quality and load of a running server, over HTTP only."""
