"""Defines captures, which collect the results of queries from a forward pass."""
