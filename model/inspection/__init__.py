"""Defines attention queries, and captures attention maps and traces from a forward pass."""
