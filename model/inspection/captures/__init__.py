"""Captures: collect the results of queries from a forward pass."""
