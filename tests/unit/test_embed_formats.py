"""Vectors come out of each format as they went in, to the bit, in small chunks."""

import base64
import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from service.api.openai.embeddings import EmbeddingsResponse, EncodingFormat, embeddings_parts
from service.api.responses import CHUNK_BYTES, gather
from service.api.vectors import compute_headers, cosines
from service.tasks.embedding.embedder import EmbedUsage, Vectors

ENCODINGS: list[EncodingFormat] = ["float", "base64"]
MAX_FLOAT_CHARS = len("-1.1754944e-38,")


def usage_of(num_inputs: int, truncated: tuple[int, ...] = ()) -> EmbedUsage:
    return EmbedUsage(10 * num_inputs, list(range(1, num_inputs + 1)), truncated, "cpu")


def read(vectors: Vectors, encoding: EncodingFormat) -> Any:
    usage = usage_of(len(vectors))
    return json.loads(b"".join(embeddings_parts(vectors, 'm"\u00e9', usage, encoding)))


def vectors_of(reply: Any) -> list[Vectors]:
    found = [item["embedding"] for item in reply["data"]]
    return [
        np.frombuffer(base64.b64decode(value, validate=True), dtype="<f4")
        if isinstance(value, str)
        else np.array(value, dtype=np.float32)
        for value in found
    ]


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_reply_is_as_the_schema_describes_it(encoding: EncodingFormat) -> None:
    reply = read(np.eye(3, 2, dtype=np.float32), encoding)
    described = EmbeddingsResponse.model_validate(reply)
    assert described.model_dump(exclude_unset=True) == reply
    assert [item["index"] for item in reply["data"]] == [0, 1, 2]
    assert (reply["model"], reply["object"]) == ('m"\u00e9', "list")
    assert isinstance(reply["data"][0]["embedding"], str) == (encoding == "base64")
    assert reply["usage"] == {"prompt_tokens": 6, "total_tokens": 6}


@given(bits=st.lists(st.integers(0, 0x7F7FFFFF), min_size=1))
def test_floats_and_base64_are_the_same_to_the_bit(bits: list[int]) -> None:
    vectors = np.array([bits, bits], dtype=np.uint32).view(np.float32)
    for encoding in ENCODINGS:
        for found in vectors_of(read(vectors, encoding)):
            assert_array_equal(found.view(np.uint32), np.array(bits, dtype=np.uint32))


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_large_reply_comes_in_chunks_of_bounded_size(encoding: EncodingFormat) -> None:
    vectors = np.random.default_rng(0).standard_normal((600, 384), dtype=np.float32)
    chunks = list(gather(embeddings_parts(vectors, "m", usage_of(600), encoding)))
    assert len(chunks) > 3
    assert all(CHUNK_BYTES <= len(chunk) for chunk in chunks[:-1])
    assert all(len(chunk) < CHUNK_BYTES + 384 * MAX_FLOAT_CHARS + 100 for chunk in chunks)
    assert_array_equal(vectors_of(json.loads(b"".join(chunks))), vectors)


def test_cosines_are_of_the_first_with_the_others() -> None:
    vectors = np.array([[3, 0], [5, 0], [0, 2], [-1, 0], [1, 1]], dtype=np.float32)
    found = cosines(vectors)
    assert found.dtype == np.float32
    assert_allclose(found, [1, 0, -1, 0.5**0.5], rtol=1e-6)


def test_cosine_is_within_its_range_and_0_for_nothing() -> None:
    """Rounding makes many a vector's cosine with itself 1.0000001."""
    rows = np.random.default_rng(0).standard_normal((200, 33), dtype=np.float32)
    alike = [cosines(np.stack([row, row, -row, 0 * row])) for row in rows]
    assert_allclose(alike, np.tile([1, -1, 0], (200, 1)), atol=1e-6)
    assert np.abs(alike).max() == 1
    assert_array_equal(cosines(0 * rows[:3]), [0, 0])


def test_cosine_does_not_depend_on_the_other_sentences() -> None:
    rows = np.random.default_rng(0).standard_normal((70, 384), dtype=np.float32)
    together = cosines(rows)
    assert_array_equal([cosines(rows[[0, n]])[0] for n in range(1, 70)], together)


def test_headers_tell_of_the_work_in_whole_milliseconds() -> None:
    stages = {"tokenize": 0.0019, "queue": 0.25, "device": 1.5, "serialize": 9.0}
    assert compute_headers(usage_of(3, truncated=(0, 2)), stages, 1.9999) == {
        "x-compute-type": "cpu",
        "x-compute-characters": "30",
        "x-compute-tokens": "6",
        "x-compute-time": "1999",
        "x-total-time": "1999",
        "x-tokenization-time": "1",
        "x-queue-time": "250",
        "x-inference-time": "1500",
        "X-Truncated-Inputs": "2",
    }
