"""Reads documents into texts to translate, and writes them back with the translations.

A document keeps every byte that is not text, such as timings, tags, keys and styles.
"""
