"""Glossaries: reads and writes their entries, and finds their terms in sentences."""
