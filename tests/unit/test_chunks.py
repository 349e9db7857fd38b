"""Chunks are JSON when put together, and none takes long."""

import json
from typing import Any

import numpy as np
import orjson
import pytest

from service.api.responses import CHUNK_BYTES, PART_VALUES, json_chunks


def read(body: Any) -> Any:
    return json.loads(b"".join(json_chunks(body)))


@pytest.mark.parametrize(
    "shape", [(1,), (3, 2), (1, 1, 1, 1), (2, 3, 150, 120), (1, 1, 1, 40_000), (2, 40_000)]
)
def test_large_matrix_is_written_in_small_parts(shape: tuple[int, ...]) -> None:
    """No chunk is more than one part, of at most PART_VALUES or a row, beyond the limit."""
    values = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    chunks = list(json_chunks({"a": [1, "b"], "items": [{"data": values}, {}], "c": None}))
    expected = {"a": [1, "b"], "items": [{"data": values.tolist()}, {}], "c": None}
    assert json.loads(b"".join(chunks)) == expected
    assert all(CHUNK_BYTES <= len(chunk) for chunk in chunks[:-1])
    longest = max(PART_VALUES, shape[-1]) * len("123456.0,")
    assert all(len(chunk) < CHUNK_BYTES + longest for chunk in chunks)
    assert (len(chunks) > 1) == (values.size > 30_000)


@pytest.mark.parametrize("body", [{}, {"a": []}, {"a": [[]], "b": {}}, {'\u00e9"': [np.zeros(2)]}])
def test_small_body_is_one_chunk(body: dict[str, Any]) -> None:
    (chunk,) = json_chunks(body)
    assert chunk == orjson.dumps(body, option=orjson.OPT_SERIALIZE_NUMPY)


def test_list_is_a_body_too() -> None:
    values = [np.zeros((2, 1)), np.ones((0, 1)), np.ones((1, 1))]
    assert read(values) == [[[0], [0]], [], [[1]]]
    assert read(np.zeros((2, 20_000))) == [[0] * 20_000] * 2
