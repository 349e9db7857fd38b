"""POST /attention and its sub-routes with pairs, read by small cross-encoders in a worker."""

import io
import json
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose

from service.errors import InvalidRequestError, NotFoundError, RequestTooLargeError
from tests.api.servers import AnyServer, Server, assert_error

QUERY, TEXT = "where did the cat sat", "the cat sat on a mat ."
PAIR = {"text": QUERY, "text_pair": TEXT}
TOKENS = ["<s>", *QUERY.split(), "</s>", *TEXT.split(), "</s>"]
PARTS = [None, *["query"] * 5, None, *["document"] * 7, None]


@pytest.fixture
def server(small_server: Server) -> Server:
    return small_server


def ask(server: AnyServer, path: str = "/attention", **fields: Any) -> dict[str, Any]:
    found: dict[str, Any] = server.reply(path, {**PAIR, **fields})
    return found


def item(server: AnyServer, **fields: Any) -> dict[str, Any]:
    (found,) = ask(server, **fields)["items"]
    assert isinstance(found, dict)
    return found


def rank(server: AnyServer, text: str = TEXT, **fields: Any) -> float:
    body = {"query": QUERY, "texts": [text], **fields}
    (found,) = server.post("/rerank", json=body).json()
    score: float = found["score"]
    return score


def test_pair_is_one_list_of_tokens(server: AnyServer) -> None:
    reply = ask(server, layers="all", reduce="none")
    assert (reply["model"], reply["usage"]["source_tokens"]) == ("ranker", 15)
    (found,) = reply["items"]
    assert [*found] == ["source", "attentions", "score"]
    source = found["source"]
    assert (source["tokens"], source["parts"]) == (TOKENS, PARTS)
    assert source["text"] == f"{QUERY}\n{TEXT}"
    spelt = [source["text"][first:end] for first, end in source["offsets"]]
    assert spelt == ["" if part is None else t for t, part in zip(TOKENS, PARTS, strict=True)]
    weights = np.array(found["attentions"][0]["data"])
    assert weights.shape == (3, 4, 15, 15)
    assert_allclose(weights.sum(-1), 1.0, atol=1e-5)


@pytest.mark.parametrize("model", ["ranker", "other"])
@pytest.mark.parametrize("raw", [False, True])
def test_score_is_that_of_rerank(server: AnyServer, model: str, raw: bool) -> None:
    fields: dict[str, Any] = {"model": model, "raw_scores": raw}
    alone = item(server, **fields)
    assert alone["score"] == rank(server, **fields)
    assert ("</s>" in alone["source"]["tokens"][7:8]) is (model == "other")
    beside = ask(server, text=[QUERY, "who"], text_pair=[TEXT, "runs home"], **fields)["items"]
    assert beside[0] == alone
    assert beside[1]["score"] != alone["score"]


def test_words_and_formats(server: AnyServer) -> None:
    words = item(server, level="word", text_pair="the mat. who")["source"]
    assert words["tokens"][7:] == ["the", "mat", ".", "who", "</s>"]
    assert words["parts"] == [None, *["query"] * 5, None, *["document"] * 4, None]
    response = server.post("/attention", json={**PAIR, "format": "npz"})
    with np.load(io.BytesIO(response.content)) as arrays:
        (found,) = json.loads(arrays["metadata"].tobytes())["items"]
        assert arrays["item0.encoder"].shape == (1, 1, 15, 15)
    assert (found["score"], found["source"]["parts"]) == (rank(server), PARTS)
    assert item(server, format="bertviz")["encoder_tokens"] == TOKENS


def test_steps_of_a_token(server: AnyServer) -> None:
    found = ask(server, "/attention/steps", query=3, include=["vectors", "block"])
    assert (found["kind"], found["query"]["token"]) == ("encoder", "the")
    assert (found["source"]["parts"], "target" in found) == (PARTS, False)
    k, q, v = (np.array(found["vectors"][name]) for name in "kqv")
    weights = np.exp(k @ q * found["scale"])
    assert_allclose(found["z"], weights @ v / weights.sum(), atol=1e-5)


def test_knockouts_change_the_score(server: AnyServer) -> None:
    parts = [{}, {"heads": [{"layers": [0], "heads": [1]}]}, {"source_words": [8]}]
    parts += [{"edges": [{"kind": "encoder", "query": 0, "key": 9}]}]
    found = ask(server, "/attention/knockout", knockouts=parts)
    assert found["score"] == rank(server)
    assert (found["source"]["parts"], len(found["source_words"])) == (PARTS, 15)
    same, *others = found["knockouts"]
    assert same == {"score": found["score"], "total_change": 0.0}
    for effect in others:
        assert effect["total_change"] == effect["score"] - found["score"] != 0.0
    raw = ask(server, "/attention/knockout", knockouts=parts, raw_scores=True)
    assert raw["score"] == rank(server, raw_scores=True)
    for logit, score in zip(raw["knockouts"], found["knockouts"], strict=True):
        assert score["score"] == pytest.approx(1 / (1 + np.exp(-logit["score"])), abs=1e-6)


NAMES_BOTH = "ranker reads pairs: send the document of each query as text_pair, with task rerank"
REFUSED: list[tuple[dict[str, Any], Any, str]] = [
    ({"text_pair": None, "task": "rerank"}, InvalidRequestError, "missing text_pair parameter; a"),
    ({"text_pair": None, "task": "embed", "model": "ranker"}, NotFoundError, NAMES_BOTH),
    ({"text_pair": None, "model": "ranker"}, NotFoundError, NAMES_BOTH),
    ({"model": "embedder"}, NotFoundError, "no cross-encoder embedder; there are ranker, other"),
    ({"task": "embed"}, InvalidRequestError, "text_pair is only for reranking; leave it out, or"),
    ({"task": "translate", "model": "en-pt"}, InvalidRequestError, "text_pair is only for"),
    ({"text": " "}, InvalidRequestError, "text has nothing to read"),
    (
        {"text_pair": "cat " * 60},
        RequestTooLargeError,
        "text with its text_pair has 68 tokens, and",
    ),
]


@pytest.mark.parametrize(("fields", "kind", "words"), REFUSED)
def test_other_requests_are_refused(
    server: AnyServer, fields: dict[str, Any], kind: Any, words: str
) -> None:
    for path, more in (("", {}), ("/steps", {"query": 0}), ("/knockout", {"knockouts": [{}]})):
        is_embedded = path == "/knockout" and fields.get("task") == "embed"
        expected = (InvalidRequestError, "only for") if is_embedded else (kind, words)
        response = server.post(f"/attention{path}", json={**PAIR, **fields, **more})
        assert_error(response, *expected)


def test_listed_models_have_their_tasks_and_sizes(server: AnyServer) -> None:
    listed = {model["id"]: model for model in server.get("/v1/models").json()["data"]}
    assert (listed["ranker"]["task"], listed["embedder"]["task"]) == ("rerank", "embed")
    assert listed["ranker"]["attention"] == {"encoder": {"layers": 3, "heads": 4}}
