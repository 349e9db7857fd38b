"""Merges tokens into words, and attention between tokens into attention between words.

Words are separated by white space. A run of letters and digits is a word, and so is every
punctuation mark or symbol. Words begin and end at the borders of tokens. The text "mat." is two
words only if the full stop is a token of its own.
"""

import unicodedata
from collections.abc import Iterator, Sequence
from enum import Enum, auto

import numpy as np
from numpy.typing import NDArray

from model.tokenization.tokenizer import WORD_START, Span, TokenizedText


class TokenClass(Enum):
    """The class of a token; the class decides whether the token continues a word."""

    BLANK = auto()
    """No text; the token after it may continue the same word or begin the next."""
    WRITTEN = auto()
    """Letters, digits, and all other text except marks; a run of such tokens is a word."""
    MARK = auto()
    """Punctuation and symbols; each such token is a word."""


def word_spans(side: TokenizedText) -> list[Span]:
    """Returns each word of a text as a span [first, end) of tokens; every token is in one word.

    A special token is a word of its own. So is the last token, even if it is not special. The last
    token is never an input of the decoder, so `input_spans` leaves out this word. The text must
    have at least one token.
    """
    starts = list(_word_starts(side))
    return list(zip(starts, [*starts[1:], len(side.ids)], strict=True))


def input_spans(words: Sequence[Span]) -> list[Span]:
    """Returns the words of a decoder's input: the start token, then all words but the last.

    The last word must be a single token, as in the result of `word_spans`. Each word is a span
    [first, end) of input tokens.
    """
    return [(0, 1), *((first + 1, end + 1) for first, end in words[:-1])]


def merge(
    weights: NDArray[np.float32], rows: Sequence[Span], columns: Sequence[Span]
) -> NDArray[np.float32]:
    """Merges attention between tokens into attention between words.

    The columns of a word's tokens are summed, and their rows are averaged. Rows that sum to 1
    therefore still sum to 1.

    Args:
        weights: Attention (..., T, S) between tokens.
        rows: Spans that together cover all T rows.
        columns: Spans that together cover all S columns.

    Returns:
        Attention between words, (..., number of rows, number of columns). The sums are computed in
        float64.
    """
    first_columns = [first for first, _ in columns]
    first_rows = [first for first, _ in rows]
    sizes = np.array([end - first for first, end in rows])
    attended = np.add.reduceat(weights.astype(np.float64), first_columns, axis=-1)  # (..., T, C)
    sums = np.add.reduceat(attended, first_rows, axis=-2)  # (..., R, C)
    merged: NDArray[np.float32] = (sums / sizes[:, None]).astype(np.float32)
    return merged


def text_span(side: TokenizedText, word: Span) -> Span:
    """Returns the place of a word in the text, [start, end) in code points."""
    first, end = word
    return side.offsets[first][0], side.offsets[end - 1][1]


def _word_starts(side: TokenizedText) -> Iterator[int]:
    word, word_end = TokenClass.BLANK, 0
    for at, (piece, (start, end)) in enumerate(zip(side.pieces, side.offsets, strict=True)):
        token_class = _class_of(side.text[start:end])
        has_space = any(map(str.isspace, side.text[word_end:start]))
        is_new = piece.startswith(WORD_START) or (
            token_class is not TokenClass.BLANK
            and (has_space or TokenClass.MARK in (token_class, word))
        )
        is_next = start >= word_end  # tokens that share a character are one word
        if _begins_word(side, at) or (word is not TokenClass.BLANK and is_new and is_next):
            yield at
            word = TokenClass.BLANK
        word = word if token_class is TokenClass.BLANK else token_class
        word_end = end


def _begins_word(side: TokenizedText, at: int) -> bool:
    """Reports whether a token begins a word whatever its class."""
    is_outer = at in (0, len(side.ids) - 1)
    return is_outer or side.special[at] or side.special[at - 1]


def _class_of(text: str) -> TokenClass:
    if not text:
        return TokenClass.BLANK
    categories = {unicodedata.category(char)[0] for char in text}
    return (
        TokenClass.MARK
        if categories & {"P", "S"} and not categories & {"L", "N"}
        else TokenClass.WRITTEN
    )
