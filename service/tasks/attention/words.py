"""Tokens gathered into words, and attention between tokens into attention between words.

A word is what stands between two blanks, less its punctuation: runs of letters and digits, and
every punctuation mark or symbol, are words of their own as far as the borders of pieces allow.
"mat." is two words where the full stop is a piece of its own.
"""

import unicodedata
from collections.abc import Iterator, Sequence
from enum import Enum, auto

import numpy as np
from numpy.typing import NDArray

from model.tokenization.tokenizer import WORD_START, Span, TokenizedText


class TokenClass(Enum):
    """What a token is to the words around it."""

    BLANK = auto()
    """White space, or nothing: after a blank, a word goes on or the next one begins."""
    WRITTEN = auto()
    """Letters, digits and whatever is no mark: runs of it are a word."""
    MARK = auto()
    """Punctuation and symbols: each is a word."""


def word_spans(side: TokenizedText) -> list[Span]:
    """The words of a text as tokens [first, end), which together are all its tokens.

    A special token is a word of its own. So is the last token, whatever it is: it is never put
    into a decoder, and so `input_spans` are whole words.
    """
    starts = list(_word_starts(side))
    return list(zip(starts, [*starts[1:], len(side.ids)], strict=True))


def input_spans(words: Sequence[Span]) -> list[Span]:
    """The words of what is put into a decoder: its start, and all of the target but its end."""
    return [(0, 1), *((first + 1, end + 1) for first, end in words[:-1])]


def merge(
    weights: NDArray[np.float32], rows: Sequence[Span], columns: Sequence[Span]
) -> NDArray[np.float32]:
    """Attention between words.

    A word is attended to as much as its pieces together, and attends as its pieces do on average,
    so that rows which sum to 1 still do.

    Args:
        weights: (..., T, S) between tokens.
        rows: Spans that together are all of T.
        columns: Spans that together are all of S.

    Returns:
        (..., rows, columns), summed in float64.
    """
    first_columns = [first for first, _ in columns]
    first_rows = [first for first, _ in rows]
    sizes = np.array([end - first for first, end in rows])
    attended = np.add.reduceat(weights.astype(np.float64), first_columns, axis=-1)  # (..., T, C)
    sums = np.add.reduceat(attended, first_rows, axis=-2)  # (..., R, C)
    merged: NDArray[np.float32] = (sums / sizes[:, None]).astype(np.float32)
    return merged


def text_span(side: TokenizedText, word: Span) -> Span:
    """Where a word lies in the text, in code points."""
    first, end = word
    return side.offsets[first][0], side.offsets[end - 1][1]


def _word_starts(side: TokenizedText) -> Iterator[int]:
    word, word_end = TokenClass.BLANK, 0
    for at, (piece, (start, end)) in enumerate(zip(side.pieces, side.offsets, strict=True)):
        kind = _kind(side.text[start:end])
        is_apart = any(map(str.isspace, side.text[word_end:start]))
        is_new = piece.startswith(WORD_START) or (
            kind is not TokenClass.BLANK and (is_apart or TokenClass.MARK in (kind, word))
        )
        is_next = start >= word_end  # tokens that share a character are one word
        if _is_alone(side, at) or (word is not TokenClass.BLANK and is_new and is_next):
            yield at
            word = TokenClass.BLANK
        word = word if kind is TokenClass.BLANK else kind
        word_end = end


def _is_alone(side: TokenizedText, at: int) -> bool:
    """Whether a token begins a word whatever it is."""
    is_outer = at in (0, len(side.ids) - 1)
    return is_outer or side.special[at] or side.special[at - 1]


def _kind(text: str) -> TokenClass:
    if not text:
        return TokenClass.BLANK
    categories = {unicodedata.category(char)[0] for char in text}
    return (
        TokenClass.MARK
        if categories & {"P", "S"} and not categories & {"L", "N"}
        else TokenClass.WRITTEN
    )
