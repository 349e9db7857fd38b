"""Reads the texts of documents, and writes the documents with the translations of the texts.

Everything else, such as timings, tags, keys and styles, stays as it is.
"""
