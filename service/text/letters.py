"""Finds letters and digits in texts."""

import re

_LETTER = re.compile(r"[^\W\d_]")
_LETTER_OR_DIGIT = re.compile(r"[^\W_]")


def has_letters(text: str) -> bool:
    """Returns whether a text has a letter."""
    return _LETTER.search(text) is not None


def has_words(text: str) -> bool:
    """Returns whether a text has a letter or a digit."""
    return _LETTER_OR_DIGIT.search(text) is not None
