"""Embeddings in the forms of Cohere, Ollama, vLLM, Voyage, Jina and Weaviate."""

import base64
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from model.encoding.embedding import Vectors
from tests.api.servers import Server, running
from tests.embedding_reference import Reference
from tests.tiny_text import write_json, write_model

ALIAS = "embed-english-v3.0"
TEXTS = ["hello world", "a b c"]
LONG = "a b c " * 5
MAX_TOKENS = 12
PROMPTS = {"query": "query: ", "passage": "a "}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model with prompts."""
    folder = tmp_path_factory.mktemp("models") / "tiny"
    write_model(folder, hidden_size=32, intermediate_size=64)
    write_json(folder / "config_sentence_transformers.json", {"prompts": PROMPTS})
    return folder


@pytest.fixture(scope="module")
def expected(folder: Path) -> Reference:
    return Reference(str(folder))


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[Server]:
    with running(models=(str(folder),), model_aliases=(f"{ALIAS}=tiny",)) as server:
        yield server


def post(server: Server, path: str, **body: Any) -> Any:
    return server.reply(path, body)


def floats(values: Any) -> Vectors:
    return np.array(values, np.float32)


CLIENTS: dict[str, tuple[str, dict[str, Any], list[str | int]]] = {
    "cohere 5.21, Client": (
        "/v1/embed",
        {"texts": TEXTS, "model": ALIAS, "input_type": "classification"},
        ["embeddings"],
    ),
    "cohere 5.21, ClientV2; litellm; langchain-cohere": (
        "/v2/embed",
        {"texts": TEXTS, "model": ALIAS, "input_type": "clustering", "embedding_types": ["float"]},
        ["embeddings", "float"],
    ),
    "cohere 5.21, ClientV2 with inputs": (
        "/v2/embed",
        {"inputs": [{"content": [{"type": "text", "text": text}]} for text in TEXTS]},
        ["embeddings", "float"],
    ),
    "ollama 0.6": (
        "/api/embed",
        {"model": "tiny", "input": TEXTS, "options": {"num_ctx": 512}, "keep_alive": "5m"},
        ["embeddings"],
    ),
    "ollama 0.6, with a tag": (
        "/api/embed",
        {"model": f"{ALIAS}:latest", "input": TEXTS, "truncate": True},
        ["embeddings"],
    ),
    "ollama, older": ("/api/embeddings", {"prompt": TEXTS[0], "model": ALIAS}, ["embedding"]),
    "weaviate": ("/vectors", {"text": TEXTS[0], "config": {"pooling_strategy": ""}}, ["vector"]),
    "vllm": ("/pooling", {"input": TEXTS[0], "model": ALIAS}, ["data", 0, "data"]),
    "voyage": (
        "/v1/embeddings",
        {"input": TEXTS[0], "model": ALIAS, "truncation": True, "output_dtype": "float"},
        ["data", 0, "embedding"],
    ),
}
"""The requests of clients, with TEXTS or its first text, and the place of the reply's numbers."""


@pytest.mark.parametrize("name", CLIENTS)
def test_clients_get_the_vectors(server: Server, expected: Reference, name: str) -> None:
    path, body, place = CLIENTS[name]
    found = post(server, path, **body)
    for step in place:
        found = found[step]
    vectors = expected.vectors(*TEXTS)
    assert_array_equal(floats(found), vectors if isinstance(found[0], list) else vectors[0])


PURPOSES: list[tuple[str, dict[str, Any], str]] = [
    ("/v2/embed", {"input_type": "search_query"}, "query: "),
    ("/v2/embed", {"input_type": "search_document"}, "a "),
    ("/v1/embeddings", {"input_type": "query"}, "query: "),
    ("/v1/embeddings", {"input_type": "document"}, "a "),
    ("/v1/embeddings", {"task": "retrieval.query"}, "query: "),
    ("/v1/embeddings", {"task": "retrieval.passage"}, "a "),
    ("/v1/embeddings", {"task": "text-matching"}, ""),
    ("/v1/embeddings", {"task": "retrieval.query", "prompt_name": "passage"}, "a "),
    ("/vectors", {"config": {"task_type": "query"}}, "query: "),
    ("/vectors", {"config": {"task_type": "passage"}}, "a "),
]


@pytest.mark.parametrize(("path", "fields", "prompt"), PURPOSES)
def test_purpose_chooses_the_prompt_of_the_model(
    server: Server, expected: Reference, path: str, fields: dict[str, Any], prompt: str
) -> None:
    name, given = {"/v2/embed": ("texts", ["b"]), "/vectors": ("text", "b")}.get(
        path, ("input", "b")
    )
    reply = post(server, path, **{name: given}, **fields)
    found = {
        "/v2/embed": lambda: reply["embeddings"]["float"][0],
        "/v1/embeddings": lambda: reply["data"][0]["embedding"],
        "/vectors": lambda: reply["vector"],
    }[path]()
    assert_array_equal(floats(found), expected.vectors(f"{prompt}b")[0])


def test_types_of_numbers_keep_the_vectors(server: Server, expected: Reference) -> None:
    # Each type is computed once, however often it is named.
    reply = post(server, "/v2/embed", texts=TEXTS, embedding_types=TYPES * 10_000)
    assert (reply["response_type"], reply["texts"]) == ("embeddings_by_type", TEXTS)
    found = reply["embeddings"]
    vectors = np.array(expected.vectors(*TEXTS))
    assert_array_equal(floats(found["float"]), vectors)
    packed = [np.frombuffer(base64.b64decode(text), "<f4") for text in found["base64"]]
    assert_array_equal(packed, vectors)
    int8, uint8 = np.array(found["int8"]), np.array(found["uint8"])
    assert_array_equal(np.abs(int8).max(axis=1), [127, 127])
    assert_array_equal(uint8, int8 + 128)
    for whole, short in zip(vectors, int8, strict=True):
        assert whole @ short / np.linalg.norm(short) > 0.999
    ubinary, binary = np.array(found["ubinary"]), np.array(found["binary"])
    assert_array_equal(np.unpackbits(ubinary.astype(np.uint8), axis=1), vectors > 0)
    assert_array_equal(binary, ubinary - 128)


TYPES = ["float", "int8", "uint8", "binary", "ubinary", "base64"]


@pytest.mark.parametrize("name", TYPES)
def test_clients_of_jina_and_voyage_choose_the_type_of_numbers(server: Server, name: str) -> None:
    expected = post(server, "/v2/embed", texts=TEXTS, embedding_types=[name])["embeddings"][name]
    fields = [{"embedding_type": name}]
    if name != "base64":
        fields.append({"output_dtype": name})
    for each in fields:
        data = post(server, "/v1/embeddings", input=TEXTS, **each)["data"]
        assert [item["embedding"] for item in data] == expected
    if name.endswith(("int8", "binary")):
        body = {"input": TEXTS, "output_dtype": name, "encoding_format": "base64"}
        data = post(server, "/v1/embeddings", **body)["data"]
        numbers = np.uint8 if name.startswith("u") else np.int8
        packed = [np.frombuffer(base64.b64decode(item["embedding"]), numbers) for item in data]
        assert_array_equal(packed, expected)


DIMENSIONS: list[tuple[str, dict[str, Any], list[str | int]]] = [
    ("/v2/embed", {"texts": TEXTS, "output_dimension": 8}, ["embeddings", "float", 1]),
    ("/api/embed", {"input": TEXTS, "dimensions": 8}, ["embeddings", 1]),
    ("/v1/embeddings", {"input": TEXTS, "output_dimension": 8}, ["data", 1, "embedding"]),
    ("/pooling", {"input": TEXTS, "dimensions": 8}, ["data", 1, "data"]),
]


@pytest.mark.parametrize(("path", "body", "place"), DIMENSIONS)
def test_vectors_are_cut_and_scaled(
    server: Server, path: str, body: dict[str, Any], place: list[str | int]
) -> None:
    expected = post(server, "/embed", inputs=TEXTS, dimensions=8)[1]
    found = post(server, path, **body)
    for step in place:
        found = found[step]
    assert found == expected


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/embed", {"inputs": LONG}),
        ("/v1/embeddings", {"input": LONG}),
        ("/v2/embed", {"texts": [LONG]}),
        ("/v2/embed", {"texts": [LONG], "truncate": "START"}),
        ("/api/embed", {"input": LONG}),
        ("/vectors", {"text": LONG}),
    ],
)
@pytest.mark.parametrize("truncate", [True, False])
def test_setting_decides_about_long_texts(
    server: Server, path: str, body: dict[str, Any], truncate: bool
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        changed = server.services.settings.model_copy(update={"truncate": truncate})
        patch.setattr(server.services, "settings", changed)
        patch.setattr(server.services.embedder, "settings", changed)
        response = server.post(path, json=body)
        assert server.get("/info").json()["auto_truncate"] is truncate
        is_cut = truncate or body.get("truncate") == "START"
        assert (response.status_code == 200) is is_cut, response.text
        if is_cut:
            assert response.headers["x-truncated-inputs"] == "1"
        else:
            assert "17 tokens; this model takes 12" in response.text
        wins = {"truncate": "NONE" if truncate else "END"}
        if path in ("/embed", "/v1/embeddings", "/api/embed"):
            wins = {"truncate": not truncate}  # type: ignore[dict-item]
        if path != "/vectors":
            assert (server.post(path, json=body | wins).status_code == 200) is not truncate


def test_start_of_a_long_text_may_be_cut(server: Server, expected: Reference) -> None:
    reply = post(server, "/v2/embed", texts=[LONG], truncate="START")
    kept = " ".join(LONG.split()[-(MAX_TOKENS - 2) :])
    assert_array_equal(floats(reply["embeddings"]["float"]), expected.vectors(kept))


def test_empty_text_has_the_vector_of_the_special_tokens(server: Server) -> None:
    (of_tokens,) = post(server, "/embed", inputs=[[1, 2]])
    for inputs in ("", ["a", ""]):
        assert post(server, "/embed", inputs=inputs)[-1] == of_tokens
        assert post(server, "/v1/embeddings", input=inputs)["data"][-1]["embedding"] == of_tokens
        assert post(server, "/api/embed", input=inputs)["embeddings"][-1] == of_tokens


def test_ollama_has_no_vectors_for_no_texts(server: Server) -> None:
    """Clients load a model so. `dimensions` of 0 is the default of Ollama's own client."""
    for more in ({}, {"dimensions": 2}):
        assert post(server, "/api/embed", model="tiny", input=[], **more)["embeddings"] == []
    whole = post(server, "/api/embed", input="a")["embeddings"]
    assert post(server, "/api/embed", input="a", dimensions=0)["embeddings"] == whole


def test_models_are_listed_in_the_form_of_ollama(server: Server) -> None:
    models = server.get("/api/tags").json()["models"]
    assert [model["name"] for model in models] == ["tiny:latest", f"{ALIAS}:latest"]
    fields = {"name", "model", "modified_at", "size", "digest", "details"}
    details = {"parent_model", "format", "family", "families"}
    for model in models:  # typed clients refuse a model without one of them
        assert model.keys() == fields
        assert model["details"].keys() == details | {"parameter_size", "quantization_level"}
    for name in ("tiny", "tiny:latest", f"{ALIAS}:latest"):
        shown = post(server, "/api/show", model=name)
        assert shown["capabilities"] == ["embedding"]
        assert shown["model_info"]["embed.embedding_length"] == 32
    assert server.get("/api/version").json()["version"]


def test_weaviate_finds_the_server_ready(server: Server) -> None:
    assert server.get("/.well-known/ready").status_code == 204
    assert server.get("/meta").json()["model"] == "tiny"


ERRORS: list[tuple[str, dict[str, Any], int, str, list[str]]] = [
    ("/v2/embed", {"texts": []}, 400, "missing texts", ["message"]),
    ("/v2/embed", {"images": ["data:"]}, 400, "images are not supported", ["message"]),
    ("/v2/embed", {"inputs": [{"content": 5}]}, 400, "inputs[0] needs content", ["message"]),
    ("/v1/embed", {"texts": ["a"], "model": "no"}, 404, "no model no", ["message"]),
    ("/v2/embed", {"texts": ["a"], "embedding_types": ["x"]}, 400, "use float, int8", ["message"]),
    ("/api/embed", {"input": "a", "model": "no"}, 404, "no model no", ["error"]),
    ("/api/embed", {}, 400, "missing input", ["error"]),
    ("/api/show", {"model": "no"}, 404, "there is no model no", ["error"]),
    ("/api/show", {}, 400, "missing model", ["error"]),
    ("/api/generate", {"model": "tiny"}, 404, "no such address", ["error"]),
    ("/vectors", {}, 400, "missing text", ["error"]),
    ("/pooling", {"input": [1, 2]}, 400, "input has token ids", ["error", "message"]),
    ("/v1/embeddings", {"input": "a", "output_dtype": "int4"}, 400, "use float", ["error"]),
    ("/v1/embeddings", {"input": "a", "embedding_type": "x"}, 400, "base64", ["error"]),
]


@pytest.mark.parametrize(("path", "body", "status", "words", "place"), ERRORS)
def test_errors_have_the_form_of_the_dialect(
    server: Server, path: str, body: dict[str, Any], status: int, words: str, place: list[str]
) -> None:
    response = server.post(path, json=body)
    assert response.status_code == status, response.text
    found = response.json()
    for step in place:
        found = found[step]
    assert words in (found if isinstance(found, str) else json.dumps(found))


def test_requests_are_counted(server: Server) -> None:
    labels = {"task": "embed", "model": "tiny", "outcome": "ok"}
    for path, body in (
        ("/v2/embed", {"texts": TEXTS}),
        ("/api/embed", {"input": TEXTS}),
        ("/vectors", {"text": "a"}),
        ("/pooling", {"input": "a"}),
    ):
        before = server.sample("regard_requests_total", **labels)
        post(server, path, **body)
        assert server.sample("regard_requests_total", **labels) == before + 1
