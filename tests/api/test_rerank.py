"""Reranking through the whole server, with a small cross-encoder in a worker."""

import math
from typing import Any

import httpx
import pytest
from pydantic import BaseModel, ConfigDict, NonNegativeInt, TypeAdapter

from service.errors import InvalidRequestError, NotFoundError, RequestTooLargeError
from tests.api.conftest import Serve
from tests.api.servers import AnyServer, Server, assert_error

QUERY = "where did the cat sit"
TEXTS = ["the train is late .", "the cat sat on a mat .", "who runs home"]


@pytest.fixture
def server(small_server: Server) -> Server:
    return small_server


def rerank(server: AnyServer, **fields: Any) -> httpx.Response:
    return server.post("/rerank", json={"query": QUERY, "texts": TEXTS, **fields})


def ranks(response: httpx.Response) -> list[dict[str, Any]]:
    assert response.status_code == 200, response.text
    found: list[dict[str, Any]] = response.json()
    return found


def test_texts_come_best_first_with_scores_between_0_and_1(server: AnyServer) -> None:
    found = ranks(rerank(server))
    assert sorted(rank["index"] for rank in found) == [0, 1, 2]
    scores = [rank["score"] for rank in found]
    assert scores == sorted(scores, reverse=True)
    assert all(0 < score < 1 for score in scores)
    assert all("text" not in rank for rank in found)


def test_raw_scores_keep_the_order(server: AnyServer) -> None:
    plain, raw = ranks(rerank(server)), ranks(rerank(server, raw_scores=True))
    assert [rank["index"] for rank in plain] == [rank["index"] for rank in raw]
    for scaled, logit in zip(plain, raw, strict=True):
        assert scaled["score"] == pytest.approx(1 / (1 + math.exp(-logit["score"])), abs=1e-6)
        assert scaled["score"] != logit["score"]


def test_score_does_not_depend_on_the_other_texts(server: AnyServer) -> None:
    together = {rank["index"]: rank["score"] for rank in ranks(rerank(server))}
    for index, text in enumerate(TEXTS):
        (alone,) = ranks(rerank(server, texts=[text]))
        assert alone["score"] == together[index]


def test_empty_text_gets_a_score(server: AnyServer) -> None:
    """Text Embeddings Inference refuses a pair only if both its parts are empty."""
    together = {rank["index"]: rank["score"] for rank in ranks(rerank(server, texts=[*TEXTS, ""]))}
    alone = {rank["index"]: rank["score"] for rank in ranks(rerank(server))}
    assert together == alone | {len(TEXTS): together[len(TEXTS)]}


def test_model_may_be_named(server: AnyServer) -> None:
    assert ranks(rerank(server, model="other")) != ranks(rerank(server, model="ranker"))
    assert ranks(rerank(server)) == ranks(rerank(server, model="ranker"))


def test_pooling_of_a_cross_encoder_scores_texts(server: AnyServer) -> None:
    body = server.post("/pooling", json={"model": "ranker", "input": TEXTS}).json()
    predicted = server.post("/predict", json={"inputs": [[text] for text in TEXTS]}).json()
    assert [each["data"] for each in body["data"]] == [[each["score"]] for (each,) in predicted]
    assert body["model"] == "ranker"
    ids = server.post("/pooling", json={"model": "ranker", "input": [[5, 6]]})
    assert ids.status_code == 400
    assert "reads texts" in ids.json()["error"]["message"]


def test_long_pair_is_cut_unless_the_request_forbids_it(server: AnyServer) -> None:
    long = [*TEXTS, "cat " * 100]
    refused = rerank(server, texts=long, truncate=False)
    assert_error(refused, RequestTooLargeError, "40", "texts")
    assert len(ranks(rerank(server, texts=long))) == 4
    left = ranks(rerank(server, texts=long, truncate=True, truncation_direction="Left"))
    assert len(left) == 4


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"texts": []}, ["texts"]),
        ({"query": ""}, ["query"]),
        ({"texts": "a"}, ["texts"]),
        ({"query": 5}, ["query"]),
        ({"truncation_direction": "up"}, ["truncation_direction"]),
    ],
)
def test_invalid_request_is_refused(
    server: AnyServer, fields: dict[str, Any], words: list[str]
) -> None:
    assert_error(rerank(server, **fields), InvalidRequestError, *words)


class TeiRank(BaseModel):
    """The schema `Rank` of TEI. Source: TEI, docs/openapi.json, version 1.6.0."""

    model_config = ConfigDict(strict=True, extra="forbid")

    index: NonNegativeInt
    score: float
    text: str | None = None


TEI_REQUESTS: list[dict[str, Any]] = [
    {"query": "What is Deep Learning?", "texts": ["Deep Learning is ..."]},
    {
        "query": QUERY,
        "texts": TEXTS,
        "raw_scores": True,
        "return_text": True,
        "truncate": None,
        "truncation_direction": "Right",
    },
    {"query": QUERY, "texts": TEXTS, "truncate": True, "truncation_direction": "Left"},
]
"""Requests with every property of the schema `RerankRequest` of TEI, and both of its directions."""


@pytest.mark.parametrize("body", TEI_REQUESTS)
def test_requests_and_replies_have_the_schemas_of_tei(
    server: AnyServer, body: dict[str, Any]
) -> None:
    response = server.post("/rerank", json=body)
    assert response.status_code == 200, response.text
    found = TypeAdapter(list[TeiRank]).validate_json(response.content)
    if body.get("return_text"):
        assert [rank.text for rank in found] == [TEXTS[rank.index] for rank in found]
    assert sorted(rank.index for rank in found) == [*range(len(body["texts"]))]
    properties = server.get("/openapi.json").json()["components"]["schemas"]["RerankRequest"]
    assert properties["required"] == ["query", "texts"]
    assert {name for request in TEI_REQUESTS for name in request} <= {*properties["properties"]}


def test_requests_are_counted(server: AnyServer) -> None:
    labels = {"task": "rerank", "model": "ranker"}
    before = server.sample("regard_tokens_total", **labels, kind="source")
    ranks(rerank(server))
    assert server.sample("regard_tokens_total", **labels, kind="source") > before
    assert server.sample("regard_requests_total", **labels, outcome="ok") >= 1


def test_server_without_a_cross_encoder_says_so(serve: Serve, small_models: dict[str, str]) -> None:
    server = serve(models=(small_models["embedder"],))
    assert_error(rerank(server), NotFoundError, "REGARD_MODELS")
