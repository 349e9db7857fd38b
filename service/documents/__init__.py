"""Reads the texts of documents, and writes the documents with the translations of the texts.

Everything that is not text stays as it is, such as timings, tags, keys and styles.
"""
