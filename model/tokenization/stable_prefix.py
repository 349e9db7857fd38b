"""Counts the stable tokens of a part of a text.

If only a part of a text is tokenised, some tokens of the part differ from the tokens of the whole
text. The other tokens are stable. A tokenizer first splits a text into words, by rules that look at
a few neighbouring characters. Then it tokenises each word alone. So the tokens of all words are
stable, except for the few words next to the cut. `model.tokenization.cut_words` finds the stable
tokens of a word that continues beyond the cut.
"""

import unicodedata
from collections.abc import Sequence

from model.tokenization.cut_words import MARGIN_CHARS, End

MARGIN_WORDS = 4
"""Number of words next to a cut whose tokens may change.

A normaliser may remove the characters between two words, and so join the words. For example, it may
join `'` and `re`.
"""


def is_open_edge(edge: str, cut: End) -> bool:
    """Returns whether the tokens next to a cut may depend on text far beyond the cut.

    This is the case if all characters in `edge` are combining marks, because normalisers sort a run
    of marks by their class. At a cut on the left, it is also the case if all characters in `edge`
    are numeric. Some tokenizers split a number into groups of three digits, counted from the left
    end of the number. This end may lie far beyond the cut.

    Args:
        edge: The characters next to the cut.
        cut: The side on which the text is cut.
    """
    return all(map(unicodedata.combining, edge)) or (cut == "left" and edge.isnumeric())


def num_stable(edges: Sequence[int], words: Sequence[int | None], size: int) -> int:
    """Returns how many tokens stand in stable words, counted from the uncut end of the text.

    Args:
        edges: For each token, the number of characters from the uncut end of the text to the far
            end of the token. The tokens are listed from the uncut end to the cut.
        words: Index of the word of each token, in the same order; None for a special token.
        size: Number of characters from the uncut end to the cut.
    """
    number = num_before(edges, size - MARGIN_CHARS)
    return min(_back_to_word(number, words), _without_last(words, MARGIN_WORDS))


def num_before(edges: Sequence[int], place: int) -> int:
    """Returns how many tokens stand before the first token that reaches beyond a place.

    Args:
        edges: As in `num_stable`.
        place: Number of characters from the uncut end to the place.
    """
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
