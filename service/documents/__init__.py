"""Reads the texts of documents, and writes their translations; everything else stays as it is."""
