"""Passes over given texts: embeddings, teacher-forced attention; computed in slices."""
