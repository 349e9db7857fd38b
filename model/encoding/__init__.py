"""Runs forward passes over given texts in slices: for embeddings and for attention queries."""
