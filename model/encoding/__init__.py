"""Sliced forward passes over given texts: embeddings, and teacher-forced attention."""
