"""Tokens into words, and words aligned by made-up attention.

tests/parity/test_alignment.py has the attention of a model.
"""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from model.tokenization.tokenizer import TokenizedText, Tokenizer
from service.tasks.alignment.alignment import (
    Alignment,
    align,
    moved,
    text_span,
    word_spans,
)


def words(side: TokenizedText) -> list[str]:
    return [side.text[slice(*text_span(side, word))] for word in word_spans(side)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("The cat (really) sat on the mat.", "The cat ( really ) sat on the mat ."),
        ("Don't pay!", "Don ' t pay !"),
        ("a well-known thing", "a well - known thing"),
        ("Wait ... what!", "Wait ... what !"),
        ("caf\u00e9s \U0001f600 hello\U0001f600x", "caf\u00e9s \U0001f600 hello \U0001f600 x"),
        ("in 2007.5 or 2007. So", "in 2007.5 or 2007. So"),  # "2007." is a piece
        ("\u00bd kg", "\u00bd kg"),
        ("x\ufdfa y", "x\ufdfa y"),
        ("\u4e2d\u6587 \u5b57", "\u4e2d\u6587 \u5b57"),
        ("", ""),
    ],
)
def test_text_is_taken_apart_into_words(tokenizer: Tokenizer, text: str, expected: str) -> None:
    """The last, without a text of its own, is EOS."""
    assert words(tokenizer.tokenize(text)) == [*expected.split(), ""]


def test_token_without_text_belongs_to_the_word_it_follows(tokenizer: Tokenizer) -> None:
    the, cat = tokenizer.encode("The cat")
    side = tokenizer.detokenize([the, tokenizer.unk_id, cat, tokenizer.eos_id])
    assert word_spans(side) == [(0, 2), (2, 3), (3, 4)]


def test_special_token_inside_is_a_word(tokenizer: Tokenizer) -> None:
    (s,) = tokenizer.processor.piece_to_id(["s"])
    side = tokenizer.detokenize([s, s, tokenizer.eos_id, s, s, tokenizer.eos_id])
    assert word_spans(side) == [(0, 2), (2, 3), (3, 5), (5, 6)]


@given(text=st.text(st.characters(exclude_categories=["Cs"])), has_end=st.booleans())
def test_words_are_all_tokens_once_and_in_order(
    tokenizer: Tokenizer, text: str, has_end: bool
) -> None:
    side = tokenizer.tokenize(text + " end") if has_end else tokenizer.detokenize([5, *range(9)])
    spans = word_spans(side)
    assert (spans[0][0], spans[-1]) == (0, (len(side.ids) - 1, len(side.ids)))
    assert all(first < end for first, end in spans)
    assert all(end == following for (_, end), (following, _) in pairwise(spans))
    places = [text_span(side, word) for word in spans]
    assert all(end <= following for (_, end), (following, _) in pairwise(places))


def test_target_that_was_cut_ends_with_a_word_of_one_token(tokenizer: Tokenizer) -> None:
    """Else the words put into a decoder would not be whole."""
    side = tokenizer.detokenize(tokenizer.encode("it is unbelievably"))
    assert word_spans(side)[-1] == (len(side.ids) - 1, len(side.ids))


@pytest.fixture
def source(tokenizer: Tokenizer) -> TokenizedText:
    return tokenizer.tokenize("The (really) cat")


@pytest.fixture
def target(tokenizer: Tokenizer) -> TokenizedText:
    return tokenizer.detokenize([*tokenizer.encode("gato (really)"), tokenizer.eos_id])


def weights(rows: list[list[float]]) -> NDArray[np.float32]:
    return np.array(rows, dtype=np.float32)


WEIGHTS = weights(
    [  # The  (    re   ally )    cat  </s>
        [0.0, 0.0, 0.3, 0.0, 0.0, 0.2, 0.5],  # gato: most of it to EOS
        [0.0, 0.4, 0.3, 0.3, 0.0, 0.0, 0.0],  # (: less to this than to two pieces of a word
        [0.1, 0.0, 0.0, 0.8, 0.0, 0.1, 0.0],  # re
        [0.7, 0.0, 0.0, 0.0, 0.0, 0.3, 0.0],  # ally: the mean with "re" decides
        [0.0, 0.0, 0.0, 0.0, 0.5, 0.5, 0.0],  # ): the first of equals
        [1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0],  # </s>
    ]
)


def test_target_word_goes_with_the_source_word_it_attends_to_most(
    source: TokenizedText, target: TokenizedText
) -> None:
    assert source.pieces[2:4] == target.pieces[2:4] == ["re", "ally"]
    assert align(WEIGHTS, source, target) == Alignment(
        source_words=[(0, 1), (1, 2), (2, 4), (4, 5), (5, 6)],
        target_words=[(0, 1), (1, 2), (2, 4), (4, 5)],
        pairs=[(2, 0, 0.3), (2, 1, 0.6), (0, 2, 0.4), (3, 3, 0.5)],
        pharaoh="2-0 2-1 0-2 3-3",
    )


def test_shifted_row_is_that_of_the_token_put_in(
    source: TokenizedText, target: TokenizedText
) -> None:
    """Rows moved on by one give the same, whatever the first one is."""
    moved = np.concatenate([np.ones((1, 7), np.float32), WEIGHTS[:-1]])
    assert align(moved, source, target, shift=1) == align(WEIGHTS, source, target)
    assert align(moved, source, target) != align(WEIGHTS, source, target)


def test_last_token_of_a_cut_target_has_its_own_row(tokenizer: Tokenizer) -> None:
    source, target = tokenizer.tokenize("a b"), tokenizer.detokenize(tokenizer.encode("b a"))
    rows = weights([[0.0, 0.0, 1.0], [0.1, 0.9, 0.0]])
    assert align(rows, source, target, shift=1).pharaoh == "1-0 1-1"


def test_nothing_goes_with_a_source_without_words(tokenizer: Tokenizer) -> None:
    empty, target = tokenizer.tokenize(""), tokenizer.tokenize("a")
    assert align(weights([[1.0], [1.0]]), empty, target) == Alignment([], [(0, 1)], [], "")
    assert align(weights([[0.5, 0.5]]), target, empty) == Alignment([(0, 1)], [], [], "")


def test_words_are_placed_in_texts_of_several_sentences(
    source: TokenizedText, target: TokenizedText
) -> None:
    tokens = align(WEIGHTS, source, target)
    in_source, in_target = (
        [text_span(side, word) for word in words]
        for side, words in ((source, tokens.source_words), (target, tokens.target_words))
    )
    placed = moved(replace(tokens, source_words=in_source, target_words=in_target), 100, 50)
    assert placed.source_words == [(100, 103), (104, 105), (105, 111), (111, 112), (113, 116)]
    assert placed.target_words == [(50, 54), (55, 56), (56, 62), (62, 63)]
    assert (placed.pairs, placed.pharaoh) == (tokens.pairs, tokens.pharaoh)
    assert in_source[0] == (0, 3)
