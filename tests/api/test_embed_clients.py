"""The real clients of OpenAI and of Hugging Face get the vectors that were computed."""

import base64
from collections.abc import Iterator
from typing import Literal

import huggingface_hub
import numpy as np
import openai
import pytest
from huggingface_hub import InferenceClient
from huggingface_hub.errors import HfHubHTTPError
from huggingface_hub.utils._http import default_client_factory
from numpy.testing import assert_allclose, assert_array_equal
from starlette.testclient import TestClient

from service.chunks import CHUNK_BYTES
from service.embed_formats import Vectors
from service.embed_schemas import Input
from tests.embed_app import (
    DIMENSIONS,
    MAX_TOKENS,
    MODEL,
    create_embed_app,
    text_vectors,
    token_vectors,
)

CAT, TRAIN = "the cat sat on the mat", "the train is late"
LONG = "one two three four five six seven eight"
HOST = "http://testserver"


@pytest.fixture(scope="module")
def http() -> TestClient:
    return TestClient(create_embed_app())


@pytest.fixture(scope="module")
def client(http: TestClient) -> openai.OpenAI:
    return openai.OpenAI(api_key="none", base_url=f"{HOST}/v1", http_client=http, max_retries=0)


@pytest.fixture
def hub() -> Iterator[type[InferenceClient]]:
    """Hugging Face's client; it takes its connection from a factory, and closes it."""
    huggingface_hub.set_client_factory(lambda: TestClient(create_embed_app()))
    yield InferenceClient
    huggingface_hub.set_client_factory(default_client_factory)


def vector_of(embedding: object) -> Vectors:
    """Numbers, or base64 of them."""
    if isinstance(embedding, str):
        return np.frombuffer(base64.b64decode(embedding, validate=True), dtype="<f4")
    return np.array(embedding, dtype=np.float32)


@pytest.mark.parametrize(
    ("given", "inputs"),
    [
        (CAT, [CAT]),
        ([CAT, TRAIN], [CAT, TRAIN]),
        ([7, 8, 9], [[7, 8, 9]]),
        ([[7, 8], [9]], [[7, 8], [9]]),
    ],
)
def test_floats_and_base64_are_the_same_vectors(
    client: openai.OpenAI, given: str | list[str], inputs: list[Input]
) -> None:
    """By default the client asks for base64, and makes floats of it."""
    expected = text_vectors(inputs)
    unpacked = client.embeddings.create(model=MODEL, input=given)
    floats = client.embeddings.create(model=MODEL, input=given, encoding_format="float")
    packed = client.embeddings.create(model=MODEL, input=given, encoding_format="base64")
    for reply in (unpacked, floats):
        assert type(reply.data[0].embedding) is list
        assert_array_equal([vector_of(item.embedding) for item in reply.data], expected)
        assert [item.index for item in reply.data] == [*range(len(inputs))]
    for item, vector in zip(packed.data, expected, strict=True):
        assert type(item.embedding) is not list
        assert_array_equal(vector_of(item.embedding), vector)


def test_usage_counts_tokens_as_the_model_reads_them(client: openai.OpenAI) -> None:
    reply = client.embeddings.create(model=MODEL, input=[CAT, TRAIN])
    num_tokens = (6 + 2) + (4 + 2)
    assert (reply.usage.prompt_tokens, reply.usage.total_tokens) == (num_tokens, num_tokens)
    assert (reply.model, reply.object) == (MODEL, "list")


def test_dimensions_are_as_asked_for(client: openai.OpenAI) -> None:
    reply = client.embeddings.create(model=MODEL, input=CAT, dimensions=5)
    assert_array_equal(vector_of(reply.data[0].embedding), text_vectors([CAT], size=5)[0])


@pytest.mark.parametrize("encoding", ["float", "base64"])
def test_large_reply_comes_whole(
    client: openai.OpenAI, encoding: Literal["float", "base64"]
) -> None:
    texts = [f"text {number}" for number in range(2048)]
    assert 8 * len(texts) * DIMENSIONS > CHUNK_BYTES
    raw = client.embeddings.with_raw_response.create(
        model=MODEL, input=texts, encoding_format=encoding
    )
    assert "content-length" not in raw.headers
    found = [vector_of(item.embedding) for item in raw.parse().data]
    assert_array_equal(found, text_vectors(texts))


def test_truncation_is_told_in_the_reply_and_the_header(client: openai.OpenAI) -> None:
    raw = client.embeddings.with_raw_response.create(
        model=MODEL, input=[CAT, LONG], extra_body={"truncate": True}
    )
    first, second = raw.parse().data
    assert raw.headers["x-truncated-inputs"] == "1"
    assert (first.model_extra, second.model_extra) == ({}, {"truncated": True})
    assert raw.parse().usage.prompt_tokens == 2 * MAX_TOKENS
    kept = " ".join(LONG.split()[:6])
    assert_array_equal(vector_of(second.embedding), text_vectors([kept])[0])


def test_long_input_is_refused_by_default(client: openai.OpenAI) -> None:
    with pytest.raises(openai.APIStatusError, match="10 tokens; this model takes 8") as refused:
        client.embeddings.create(model=MODEL, input=[CAT, LONG])
    error = refused.value
    assert (error.status_code, error.code, error.param) == (413, "too_large", "input")


@pytest.mark.parametrize(
    ("model", "given", "kind", "code", "param"),
    [
        ("no", "a", openai.NotFoundError, "model_not_found", "model"),
        (MODEL, "", openai.BadRequestError, None, "input"),
        (MODEL, [5, 1000], openai.BadRequestError, None, "input"),
        ("busy", "a", openai.RateLimitError, "rate_limit_exceeded", None),
        (MODEL, ["a"] * 2049, openai.APIStatusError, "too_large", "input"),
        (MODEL, "a" * 2**20, openai.APIStatusError, "too_large", None),
    ],
)
def test_error_is_one_that_the_client_knows(
    client: openai.OpenAI,
    model: str,
    given: str,
    kind: type[openai.APIStatusError],
    code: str | None,
    param: str | None,
) -> None:
    with pytest.raises(kind) as refused:
        client.embeddings.create(model=model, input=given)
    error = refused.value
    assert (error.code, error.param) == (code, param)
    assert error.request_id == error.response.headers["x-request-id"]
    retry_after = error.response.headers.get("retry-after")
    assert retry_after == ("7" if kind is openai.RateLimitError else None)


def test_address_that_is_not_there_is_told_in_the_same_shape(client: openai.OpenAI) -> None:
    with pytest.raises(openai.NotFoundError, match="no such address") as refused:
        client.models.list()
    assert refused.value.code == "unknown_url"


def test_hub_client_gets_the_vectors(hub: type[InferenceClient]) -> None:
    found = hub(base_url=f"{HOST}/embed").feature_extraction(
        LONG, normalize=True, truncate=True, truncation_direction="left"
    )
    assert_array_equal(vector_of(found), text_vectors([LONG], "left"))


def test_hub_client_gets_the_cosines(hub: type[InferenceClient]) -> None:
    client = hub(base_url=f"{HOST}/similarity")
    source, *others = text_vectors([CAT, TRAIN, CAT])
    found = client.sentence_similarity(CAT, other_sentences=[TRAIN, CAT])
    assert_allclose(found, [other @ source for other in others], atol=1e-6)


def test_hub_client_is_told_why_not(hub: type[InferenceClient]) -> None:
    client = hub(base_url=f"{HOST}/embed")
    with pytest.raises(HfHubHTTPError, match=r"inputs\[0\] has 10 tokens") as refused:
        client.feature_extraction(LONG, truncate=False)
    assert refused.value.response.status_code == 413


def test_embed_all_has_a_vector_for_each_token(http: TestClient) -> None:
    found = http.post("/embed_all", json={"inputs": [CAT, LONG]})
    assert [len(tokens) for tokens in found.json()] == [6, 6]
    for text, tokens in zip([CAT, LONG], found.json(), strict=True):
        assert_array_equal(vector_of(tokens), token_vectors(text))
    assert found.headers["x-truncated-inputs"] == "1"
    assert found.headers["x-compute-tokens"] == str(2 * MAX_TOKENS)


@pytest.mark.parametrize("inputs", [CAT, [CAT]])
def test_one_text_is_nested_too(http: TestClient, inputs: str | list[str]) -> None:
    found = http.post("/embed", json={"inputs": inputs, "dimensions": 3})
    assert_array_equal(vector_of(found.json()), text_vectors([CAT], size=3))
    assert found.headers["x-truncated-inputs"] == "0"
    assert found.headers["x-compute-characters"] == str(len(CAT))
