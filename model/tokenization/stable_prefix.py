"""Which tokens of a part of a text are those of the whole text.

A tokenizer first makes words of a text, by rules that look a few characters ahead, and then tokens
of each word by itself. So all words are settled but the last few before the place where a text was
cut. Two models tokenise a word without end piece by piece: in BPE and Unigram a piece depends on
what follows only as far as pieces overlap. In a word that goes on over WORD_CHARS characters and
WORD_TOKENS tokens before the cut, what lies in front of these is taken as settled too. WordPiece
makes one unknown token of a word over its own limit (100 characters): that is settled
when it ends.
"""

from collections.abc import Sequence
from typing import Literal

End = Literal["left", "right"]

LOOKAHEAD_CHARS = 256
"""More than a rule of words, a special token or an accented letter spans."""

LOOKAHEAD_WORDS = 4
"""The same in words, for normalisers that remove characters: `'` and `re` make one."""

WORD_CHARS = 1024
WORD_TOKENS = 256


def num_settled(
    edges: Sequence[int], words: Sequence[int | None], size: int, splits_words: bool
) -> int:
    """How many tokens, from the end that was not cut, are those of the whole text.

    Args:
        edges: How far from that end each token reaches, in characters; nearest first.
        words: The word of each token; None for a special one.
        size: Where the text is cut, in characters from that end.
        splits_words: Whether the model tokenises a word of any length piece by piece.
    """
    settled = _back_to_word(_num_before(edges, size - LOOKAHEAD_CHARS), words)
    settled = min(settled, _without_last(words, LOOKAHEAD_WORDS))
    if not splits_words:
        return settled
    inside = min(_num_before(edges, size - WORD_CHARS), len(edges) - WORD_TOKENS)
    return max(settled, inside)


def _num_before(edges: Sequence[int], place: int) -> int:
    return next((number for number, edge in enumerate(edges) if edge > place), len(edges))


def _back_to_word(number: int, words: Sequence[int | None]) -> int:
    """Where the word begins that the token of a number is in."""
    while 0 < number < len(words) and words[number - 1] == words[number] is not None:
        number -= 1
    return number


def _without_last(words: Sequence[int | None], count: int) -> int:
    """How many tokens stand before the last so many words."""
    number = len(words)
    for _ in range(count):
        number = _back_to_word(max(0, number - 1), words)
    return number
