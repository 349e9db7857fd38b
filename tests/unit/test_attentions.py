"""Matrices as they are shown."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.testing import assert_allclose, assert_array_equal

from model.tokenization.tokenizer import Tokenizer
from service.tasks.alignment.alignment import word_spans
from service.tasks.attention.requests import Kind
from service.tasks.attention.results import detachment, largest, rounded, with_inputs, word_labels
from tests.attention import made_up_item, target_of

FLOATS = st.floats(0, 100, width=32)
MATRICES = arrays(np.float32, st.tuples(*[st.integers(1, 5)] * 4), elements=FLOATS)


@pytest.mark.parametrize("kind", ["encoder", "decoder", "cross"])
def test_words_sum_what_they_are_attended_to_and_share_how_they_attend(
    tokenizer: Tokenizer, kind: Kind
) -> None:
    tokens = made_up_item(tokenizer, (kind,))
    item = made_up_item(tokenizer, (kind,), level="word")
    rows = item.source if kind == "encoder" else target_of(item)
    columns = target_of(item) if kind == "decoder" else item.source
    before, after = tokens.attentions[0].data, item.attentions[0].data
    assert after.shape == (2, 3, len(rows.tokens), len(columns.tokens))
    assert after.shape < before.shape
    assert_allclose(after.sum(-1), 1, atol=1e-6)
    at = rows.tokens.index("really")
    first = sum(len(ids) for ids in rows.ids[:at] if isinstance(ids, list))
    count = len(ids) if isinstance(ids := rows.ids[at], list) else 0
    assert count == 2
    assert_allclose(after[..., at, -1], before[..., first : first + 2, -1].mean(-1), rtol=1e-6)
    assert_allclose(after[..., -1, 0], before[..., -1, 0], rtol=1e-6)


def test_decoder_columns_are_words_put_in(tokenizer: Tokenizer) -> None:
    """The start is one, and the last word is not among them."""
    tokens = made_up_item(tokenizer, ("decoder",)).attentions[0].data
    item = made_up_item(tokenizer, ("decoder",), level="word")
    inputs = target_of(item).input_tokens or []
    at = inputs.index("really")
    first = target_of(made_up_item(tokenizer, ("decoder",))).tokens.index("re") + 1
    assert_allclose(
        item.attentions[0].data[..., 0, at], tokens[..., 0, first : first + 2].sum(-1), rtol=1e-6
    )


def test_largest_values_are_taken_before_they_are_rounded(tokenizer: Tokenizer) -> None:
    whole = made_up_item(tokenizer).attentions[0]
    cut = made_up_item(tokenizer, top_k=3, decimals=0).attentions[0]
    assert whole.indices is None
    assert cut.indices is not None
    assert cut.data.shape == cut.indices.shape == (*whole.data.shape[:3], 3)
    assert_array_equal(cut.indices[..., 0], whole.data.argmax(-1))
    assert set(np.unique(cut.data)) <= {0.0, 1.0}


@given(MATRICES, st.integers(1, 6))
def test_largest_of_each_row(data: np.ndarray, count: int) -> None:
    values, indices = largest(data, count)
    assert values.shape == indices.shape == (*data.shape[:3], min(count, data.shape[3]))
    assert [str(values.dtype), str(indices.dtype)] == ["float32", "int32"]
    assert_array_equal(np.take_along_axis(data, indices, -1), values)
    assert_array_equal(-np.sort(-data, axis=-1)[..., :count], values)
    ties = values[..., 1:] == values[..., :-1]
    assert (np.diff(indices, axis=-1)[ties] > 0).all()


def test_equal_values_come_from_left_to_right() -> None:
    """A sort that is not stable shows only in long rows."""
    _, indices = largest(np.zeros((1, 1, 2, 300), dtype=np.float32), 200)
    assert_array_equal(indices, np.broadcast_to(np.arange(200), (1, 1, 2, 200)))


@given(MATRICES, st.integers(0, 9))
def test_rounded_values_have_no_more_decimals(data: np.ndarray, decimals: int) -> None:
    shown = rounded(data, decimals)
    assert shown.dtype == np.float32
    exact = [np.float32(round(float(value), decimals)) for value in data.flat]
    assert_array_equal(shown.ravel(), exact)
    for value in shown.flat:
        spelling = np.format_float_positional(value, unique=True)
        assert len(spelling.partition(".")[2]) <= decimals


def test_words_stand_as_in_the_text(tokenizer: Tokenizer) -> None:
    side = tokenizer.tokenize("Unbelievably  late.")
    labels = with_inputs(word_labels(side, word_spans(side)), "")
    assert labels.tokens == ["Unbelievably", "late", ".", "</s>"]
    assert labels.offsets == [(0, 12), (14, 18), (18, 19), (19, 19)]
    assert labels.special == [False, False, False, True]
    assert labels.input_tokens == ["", "Unbelievably", "late", "."]
    assert [len(ids) for ids in labels.ids if isinstance(ids, list)][1:] == [1, 1, 1]
    assert sum((ids for ids in labels.ids if isinstance(ids, list)), []) == side.ids


@pytest.mark.parametrize(
    ("weights", "expected"),
    [
        ([[0.25] * 4] * 3, 0.0),  # equal attention
        ([[1.0, 0.0], [0.0, 1.0]], 0.0),  # attention to every token in turn
        ([[0.0, 0.0, 0.0, 1.0]] * 3, 1 - 1 / 4),  # attention to one token
        ([[0.5, 0.5, 0.0], [0.7, 0.3, 0.0]], (0.6 - 1 / 3 + 0.4 - 1 / 3 + 1 / 3) / 2),
    ],
)
def test_detachment_is_the_distance_from_equal_attention(
    weights: list[list[float]], expected: float
) -> None:
    assert detachment(np.array(weights, np.float32)) == pytest.approx(expected)
