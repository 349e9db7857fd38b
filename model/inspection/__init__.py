"""Attention queries, and the capture of attention maps and traces from a forward pass."""
