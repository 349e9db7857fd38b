"""Gives translations the case and the final punctuation of their sources."""
