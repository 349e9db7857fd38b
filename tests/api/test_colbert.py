"""A ColBERT model through the whole server: vectors of tokens, and MaxSim for reranking."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from service.errors import InvalidRequestError, RequestTooLargeError
from tests.api.servers import AnyServer, assert_error, running
from tests.parity.test_colbert import LENGTH, TEXTS, write

QUERY = "hello world"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AnyServer]:
    folder: Path = tmp_path_factory.mktemp("models") / "colbert"
    write(folder)
    with running(models=(str(folder),)) as server:
        yield server


def vectors(server: AnyServer, *texts: str, **fields: Any) -> list[np.ndarray]:
    body = {"inputs": [*texts], "model": "colbert", **fields}
    return [np.array(each) for each in server.reply("/embed_all", body)]


def scores(server: AnyServer, **fields: Any) -> dict[int, float]:
    body = {"query": QUERY, "texts": TEXTS, "raw_scores": True, **fields}
    return {each["index"]: each["score"] for each in server.reply("/rerank", body)}


def test_vectors_have_length_1_and_queries_are_filled(server: AnyServer) -> None:
    (query,) = vectors(server, QUERY, prompt_name="query")
    assert query.shape == (LENGTH, 8)
    documents = vectors(server, *TEXTS)
    assert documents[0].shape == (7, 8)  # without the point
    for each in (query, *documents):
        np.testing.assert_allclose(np.linalg.norm(each, axis=1), 1.0, atol=1e-6)
    for each, other in zip(documents, vectors(server, *TEXTS, prompt_name="document"), strict=True):
        np.testing.assert_array_equal(each, other)


def test_reranking_takes_the_largest_products(server: AnyServer) -> None:
    (query,) = vectors(server, QUERY, prompt_name="query")
    expected = {
        place: float((query @ each.T).max(axis=1).sum())
        for place, each in enumerate(vectors(server, *TEXTS))
    }
    found = scores(server)
    assert found == pytest.approx(expected, abs=1e-5)
    assert [*found] == sorted(expected, key=expected.__getitem__, reverse=True)
    means = {place: score / LENGTH for place, score in expected.items()}
    assert scores(server, raw_scores=False) == pytest.approx(means, abs=1e-6)
    for place, text in enumerate(TEXTS):
        assert scores(server, texts=[text])[0] == found[place]


def test_cohere_gets_the_same_order(server: AnyServer) -> None:
    response = server.post("/v2/rerank", json={"query": QUERY, "documents": TEXTS})
    results = response.json()["results"]
    assert {each["index"]: each["relevance_score"] for each in results} == scores(server)
    one = {"query": QUERY, "documents": TEXTS, "max_tokens_per_doc": 1}
    assert server.post("/v2/rerank", json=one).json()["results"] != results


def test_long_text_is_cut_unless_the_request_forbids_it(server: AnyServer) -> None:
    body = {"query": QUERY, "texts": TEXTS, "truncate": False}
    words = "texts[2] has 43 tokens", "takes 20"
    assert_error(server.post("/rerank", json=body), RequestTooLargeError, *words)
    body["query"] = "hello " * 10
    words = "texts[0] has 13 tokens", "takes 12; inputs that are too long: 3"
    assert_error(server.post("/rerank", json=body), RequestTooLargeError, *words)


@pytest.mark.parametrize(
    ("path", "body", "word"),
    [
        ("/embed", {"inputs": "hello", "model": "colbert"}, "/embed_all"),
        ("/embed_sparse", {"inputs": "hello", "model": "colbert"}, "/embed_all"),
        ("/predict", {"inputs": "hello"}, "send pairs"),
        ("/embed_all", {"inputs": "a", "model": "colbert", "prompt_name": "x"}, "query, document"),
    ],
)
def test_other_requests_are_refused(
    server: AnyServer, path: str, body: dict[str, Any], word: str
) -> None:
    assert_error(server.post(path, json=body), InvalidRequestError, word)


def test_attention_is_that_of_a_document(server: AnyServer) -> None:
    body = {"text": QUERY, "task": "embed", "model": "colbert"}
    pieces = server.reply("/attention", body)["items"][0]["source"]["tokens"]
    assert pieces == ["[CLS]", "[D] ", "hello", "world", "[SEP]"]
