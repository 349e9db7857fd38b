"""Counts the stable tokens of a part of a text.

When only a part of a text is tokenised, some of its tokens differ from those of the whole text. The
other tokens are stable. A tokenizer first splits a text into words, by rules that look a few
characters ahead. Then it tokenises each word by itself. So the tokens of all words are stable,
except for the last words before the place where the text is cut. `cut_words.py` finds the stable
tokens of a word that continues after the cut.
"""

import unicodedata
from collections.abc import Sequence

from model.tokenization.cut_words import MARGIN_CHARS, End

MARGIN_WORDS = 4
"""Number of words next to a cut whose tokens may change.

A normaliser may remove the characters between two words, such as `'` and `re`, and so join them.
"""


def is_open_edge(edge: str, cut: End) -> bool:
    """Returns whether the tokens next to a cut depend on text at any distance beyond the cut.

    They do if all the characters are combining marks, because normalisers sort a run of marks by
    their class. They also do if the cut is on the left and all the characters are digits. Words may
    then be groups of three digits, counted from the left end of the number.

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
    """Returns how many tokens stand before the first token that reaches beyond a place."""
    return next((number for number, edge in enumerate(edges) if edge > place), len(edges))


def _back_to_word(number: int, words: Sequence[int | None]) -> int:
    """Returns the index of the first token of the word that contains token `number`."""
    while 0 < number < len(words) and words[number - 1] == words[number] is not None:
        number -= 1
    return number


def _without_last(words: Sequence[int | None], count: int) -> int:
    """Returns how many tokens stand before the last `count` words."""
    number = len(words)
    for _ in range(count):
        number = _back_to_word(max(0, number - 1), words)
    return number
