"""Measures of the translations themselves: quality, consistency, alignment and detachment."""
