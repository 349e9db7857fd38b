"""Alignment by made-up attention; with that of a model in tests/parity/test_alignment.py."""

import numpy as np
import pytest
from numpy.typing import NDArray

from model.checkpoints.load import ModelFiles
from model.tokenization.tokenizer import TokenizedText, Tokenizer
from service.tasks.alignment.alignment import Alignment, align, in_text, moved


@pytest.fixture(scope="module")
def tokenizer(built_in: ModelFiles) -> Tokenizer:
    return Tokenizer(built_in.source_vocab)


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
    placed = moved(in_text(tokens, source, target), (100, 50))
    assert placed.source_words == [(100, 103), (104, 105), (105, 111), (111, 112), (113, 116)]
    assert placed.target_words == [(50, 54), (55, 56), (56, 62), (62, 63)]
    assert (placed.pairs, placed.pharaoh) == (tokens.pairs, tokens.pharaoh)
    assert in_text(tokens, source, target).source_words[0] == (0, 3)
