"""Attacks on a running server: documents, texts, slow clients and a failing state."""
