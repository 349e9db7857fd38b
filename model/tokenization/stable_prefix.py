"""Counts the tokens of a part of a text that are tokens of the whole text.

A tokenizer first splits a text into words, by rules that look a few characters ahead. Then it
tokenises each word by itself. So the tokens of all words are stable, except for the last words
before the place where the text is cut. `cut_words.py` finds the stable tokens of a word that goes
on over the cut.
"""

import unicodedata
from collections.abc import Sequence

from model.tokenization.cut_words import MARGIN_CHARS, End

MARGIN_WORDS = 4
"""Words next to a cut that may change, for normalisers that remove characters: `'` and `re`."""


def is_open_edge(edge: str, cut: End) -> bool:
    """Returns whether characters next to a cut depend on text at any distance beyond the cut.

    Combining marks are sorted by their class. Digits may make words in groups of three, counted
    from the left.

    Args:
        edge: The characters next to the cut.
        cut: The end at which the text is cut.
    """
    return all(map(unicodedata.combining, edge)) or (cut == "left" and edge.isnumeric())


def num_stable(edges: Sequence[int], words: Sequence[int | None], size: int) -> int:
    """Returns how many tokens, counted from the end that was not cut, stand in stable words.

    Args:
        edges: Distance of each token's far edge from that end, in characters; nearest first.
        words: Index of the word of each token; None for a special token.
        size: Distance of the cut from that end, in characters.
    """
    number = num_before(edges, size - MARGIN_CHARS)
    return min(_back_to_word(number, words), _without_last(words, MARGIN_WORDS))


def num_before(edges: Sequence[int], place: int) -> int:
    """Returns how many tokens stand before the first that reaches over a place."""
    return next((number for number, edge in enumerate(edges) if edge > place), len(edges))


def _back_to_word(number: int, words: Sequence[int | None]) -> int:
    """Returns the number of the first token in the word of a token."""
    while 0 < number < len(words) and words[number - 1] == words[number] is not None:
        number -= 1
    return number


def _without_last(words: Sequence[int | None], count: int) -> int:
    """Returns how many tokens stand before the last `count` words."""
    number = len(words)
    for _ in range(count):
        number = _back_to_word(max(0, number - 1), words)
    return number
