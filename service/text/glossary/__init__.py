"""Glossaries: their entries as text, and the terms that a sentence has."""
