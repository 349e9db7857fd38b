"""Converts text to token ids and back, with character offsets."""
