"""Defines captures, which collect the results of queries during a forward pass."""
