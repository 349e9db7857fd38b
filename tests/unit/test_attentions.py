"""Matrices as they are shown."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.testing import assert_allclose, assert_array_equal

from model.checkpoints.load import ModelFiles
from model.tokenization.tokenizer import Tokenizer
from service.errors import RequestTooLargeError
from service.tasks.attention.arrays import largest, rounded
from service.tasks.attention.query import check_values
from service.tasks.attention.requests import Kind
from tests.attention import SOURCE, TARGET, made_up_item

FLOATS = st.floats(0, 100, width=32)
MATRICES = arrays(np.float32, st.tuples(*[st.integers(1, 5)] * 4), elements=FLOATS)


@pytest.fixture(scope="module")
def tokenizer(built_in: ModelFiles) -> Tokenizer:
    return Tokenizer(built_in.source_vocab)


@pytest.mark.parametrize("kind", ["encoder", "decoder", "cross"])
def test_words_sum_what_they_are_attended_to_and_share_how_they_attend(
    tokenizer: Tokenizer, kind: Kind
) -> None:
    tokens = made_up_item(tokenizer, (kind,))
    item = made_up_item(tokenizer, (kind,), level="word")
    rows = item.source if kind == "encoder" else item.target
    columns = item.target if kind == "decoder" else item.source
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
    assert item.target.input_tokens is not None
    at = item.target.input_tokens.index("really")
    first = made_up_item(tokenizer, ("decoder",)).target.tokens.index("re") + 1
    assert_allclose(
        item.attentions[0].data[..., 0, at], tokens[..., 0, first : first + 2].sum(-1), rtol=1e-6
    )


def test_labels_are_of_the_level(tokenizer: Tokenizer) -> None:
    item = made_up_item(tokenizer)
    assert (item.source.text, item.target.text) == (SOURCE, TARGET)
    assert item.source.tokens[2:4] == ["re", "ally"]
    assert made_up_item(tokenizer, level="word").source.tokens[2] == "really"
    for level in ("token", "word"):
        inputs = made_up_item(tokenizer, level=level).target.input_tokens
        assert inputs is not None
        assert inputs[0] == ""


def test_alignment_is_the_same_at_both_levels(tokenizer: Tokenizer) -> None:
    words = made_up_item(tokenizer, level="word").alignment
    assert words == made_up_item(tokenizer).alignment
    assert (2, 4) in words.source_words


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


def test_values_are_left_as_they_are_by_default() -> None:
    data = np.array([[0.1234567]], dtype=np.float32)
    assert rounded(data, None) is data


def test_too_many_values_are_refused() -> None:
    check_values(1000, 1000)
    with pytest.raises(
        RequestTooLargeError, match="1001 attention values exceed the limit of 1000"
    ):
        check_values(1001, 1000)
