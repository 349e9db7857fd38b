"""Requests that other people's clients send to rerank, and the replies that they can read.

tests/clients runs some of these clients themselves.
"""

from collections.abc import Callable
from typing import Any

import pytest

from tests.api.servers import Server, running
from tests.tiny_cross_encoder import make_modular, write_cross_encoder
from tests.tiny_text import change_json

QUERY = "where did the cat sit"
TEXTS = ["the train is late .", "the cat sat on a mat .", "who runs home"]
OBJECTS = [{"text": text, "page": page} for page, text in enumerate(TEXTS)]
ALIAS = "rerank-english-v3.0"


@pytest.fixture
def server(small_server: Server) -> Server:
    return small_server


@pytest.fixture(scope="module")
def expected(small_server: Server) -> dict[int, float]:
    """Scores by TEI's route, best first."""
    found = small_server.post("/rerank", json={"query": QUERY, "texts": TEXTS}).json()
    return {rank["index"]: rank["score"] for rank in found}


BASE = {"model": ALIAS, "query": QUERY, "documents": TEXTS}

REQUESTS: dict[str, tuple[str, dict[str, Any]]] = {
    "cohere 5.21, Client": ("/v1/rerank", BASE | {"top_n": 3, "return_documents": False}),
    "cohere 5.21, ClientV2; langchain-cohere; haystack": (
        "/v2/rerank",
        BASE | {"top_n": 3, "max_tokens_per_doc": 4096},
    ),
    "litellm, cohere and infinity": ("/v1/rerank", BASE | {"return_documents": True}),
    "litellm, hosted_vllm": ("/rerank", BASE | {"return_documents": True}),
    "Open WebUI": ("/v1/rerank", BASE | {"top_n": 3}),
    "Dify, OpenAI-API-compatible": ("/v1/rerank", BASE | {"top_n": 3}),
    "RAGFlow, Xinference": (
        "/v1/rerank",
        BASE | {"return_documents": "true", "return_len": "true"},
    ),
    "RAGFlow, Jina": ("/v1/rerank", BASE | {"top_n": 3}),
    "vLLM's own example": ("/rerank", {"query": QUERY, "documents": TEXTS, "top_n": 0}),
}


@pytest.mark.parametrize("name", REQUESTS)
def test_reply_is_in_the_form_of_cohere(
    server: Server, expected: dict[int, float], name: str
) -> None:
    path, body = REQUESTS[name]
    response = server.post(path, json=body)
    assert response.status_code == 200, response.text
    reply = response.json()
    found = {each["index"]: each["relevance_score"] for each in reply["results"]}
    assert [*found.items()] == [*expected.items()]
    has_documents = body.get("return_documents") in (True, "true")
    for each in reply["results"]:
        text = {"text": TEXTS[each["index"]]}
        assert each.get("document") == (text if has_documents else None)
    tokens = reply["usage"]["total_tokens"]
    assert tokens > 0
    assert reply["meta"]["tokens"] == {"input_tokens": tokens, "output_tokens": 0}
    assert reply["meta"]["billed_units"] == {"search_units": 1}
    assert (reply["model"], reply["id"]) == ("ranker", response.headers["x-request-id"])


@pytest.mark.parametrize(
    ("fields", "name"),
    [
        ({"truncation": True}, "voyageai 0.5"),
        ({"top_k": 3, "return_documents": True}, "litellm, voyage with top_n"),
    ],
)
def test_reply_is_in_the_form_of_voyage(
    server: Server, expected: dict[int, float], fields: dict[str, Any], name: str
) -> None:
    reply = server.post("/v1/rerank", json=BASE | fields).json()
    assert {each["index"]: each["relevance_score"] for each in reply["data"]} == expected, name
    if "return_documents" in fields:
        assert reply["data"][0]["document"] == TEXTS[reply["data"][0]["index"]]
    assert reply["usage"]["total_tokens"] > 0


def test_reply_is_in_the_form_of_weaviate(server: Server, expected: dict[int, float]) -> None:
    body = {"query": QUERY, "documents": TEXTS, "property": ""}
    reply = server.post("/rerank", json=body).json()
    scores = [{"document": TEXTS[index], "score": score} for index, score in expected.items()]
    assert reply == {"query": QUERY, "scores": scores}


def test_documents_may_be_objects(server: Server, expected: dict[int, float]) -> None:
    body = BASE | {"documents": OBJECTS, "return_documents": True, "top_n": 2}
    results = server.post("/v2/rerank", json=body).json()["results"]
    assert [(each["index"], each["relevance_score"]) for each in results] == [*expected.items()][:2]
    assert all(each["document"] == OBJECTS[each["index"]] for each in results)
    named = BASE | {"documents": OBJECTS, "rank_fields": ["page", "text"]}
    lines = BASE | {
        "documents": [f"page: {each['page']}\ntext: {each['text']}" for each in OBJECTS]
    }
    by_name, by_lines = (
        server.post("/v1/rerank", json=each).json()["results"] for each in (named, lines)
    )
    assert by_name == by_lines != server.post("/v1/rerank", json=BASE).json()["results"]


@pytest.mark.parametrize(
    ("fields", "status", "words"),
    [
        ({"documents": []}, 400, "documents parameter is an empty list"),
        ({"documents": ["a", {"title": "b"}]}, 400, "documents[1] has no text"),
        ({"documents": ["a", 7]}, 400, "documents[1] parameter"),
        ({"query": ""}, 400, "query parameter is empty"),
        ({"query": None}, 400, "missing query parameter"),
        ({"top_n": -1}, 400, "top_n parameter must be >= 0; it is -1"),
        ({"model": "embedder"}, 404, "no model embedder that reranks; there are ranker, other"),
        ({"documents": ["cat " * 100], "truncate": False}, 400, "takes 40"),
        ({"rank_fields": ["a"] * 65}, 400, "rank_fields parameter: List should have at most 64"),
        ({"documents": [{}] * 2049}, 400, "documents has 2049 texts; the limit is 2048"),
    ],
)
@pytest.mark.parametrize("path", ["/v1/rerank", "/v2/rerank"])
def test_errors_are_in_the_form_of_cohere(
    server: Server, path: str, fields: dict[str, Any], status: int, words: str
) -> None:
    response = server.post(path, json=BASE | fields)
    assert response.status_code == status
    assert words in response.json()["message"]
    assert response.json()["id"] == response.headers["x-request-id"]


def test_documents_are_cut_to_a_number_of_tokens(server: Server) -> None:
    def scores(documents: list[str], **fields: Any) -> dict[int, float]:
        asked = {"query": QUERY, "documents": documents, "truncate": False, **fields}
        results = server.post("/v2/rerank", json=asked).json()["results"]
        return {each["index"]: each["relevance_score"] for each in results}

    long = "the cat sat " * 100  # without the limit, it is refused
    documents = [long, "the cat runs", "the cat", "home the cat"]
    cut = scores(documents, max_tokens_per_doc=2)
    assert cut == scores(["the cat", "the cat", "the cat", "home the"])
    cut = scores(documents[1:], max_tokens_per_doc=2, truncation_direction="left")
    assert cut == scores(["cat runs", "the cat", "the cat"])
    assert scores(documents[1:], max_tokens_per_doc=4096) == scores(documents[1:])


SCORES: list[tuple[str, dict[str, Any]]] = [
    ("/score", {"text_1": QUERY, "text_2": TEXTS}),
    ("/v1/score", {"model": ALIAS, "text_1": [QUERY] * 3, "text_2": TEXTS}),
    ("/score", {"queries": QUERY, "documents": TEXTS}),
    ("/score", {"queries": QUERY, "items": TEXTS, "text_1": None}),
    ("/score", {"data_1": QUERY, "data_2": TEXTS}),
]


@pytest.mark.parametrize(("path", "body"), SCORES)
def test_pairs_are_scored_in_the_form_of_vllm(
    server: Server, expected: dict[int, float], path: str, body: dict[str, Any]
) -> None:
    reply = server.post(path, json=body).json()
    assert {each["index"]: each["score"] for each in reply["data"]} == expected
    assert (reply["object"], reply["model"]) == ("list", "ranker")
    assert reply["usage"]["total_tokens"] > 0


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({"text_1": ["a", "b"], "text_2": TEXTS}, "text_1 has 2 texts and text_2 has 3"),
        ({"text_1": QUERY}, "missing text_2 parameter"),
        ({"text_1": QUERY, "text_2": []}, "text_2 parameter is an empty list"),
    ],
)
def test_scores_are_refused_in_the_form_of_openai(
    server: Server, body: dict[str, Any], words: str
) -> None:
    response = server.post("/score", json=body)
    assert response.status_code == 400
    assert words in response.json()["error"]["message"]


IDENTITY = "torch.nn.modules.linear.Identity"


@pytest.mark.parametrize(
    "config",
    [
        {"sentence_transformers": {"activation_fn": IDENTITY}},
        {"sbert_ce_default_activation_function": IDENTITY},
        {},
    ],
)
def test_activation_of_the_config_is_respected(
    tmp_path_factory: pytest.TempPathFactory, config: dict[str, Any]
) -> None:
    """TEI's route returns a sigmoid nevertheless, as TEI does."""
    folder = tmp_path_factory.mktemp("models") / "ranker"
    write_cross_encoder(folder)
    if config:
        change_json(folder / "config.json", **config)
    else:
        make_modular(folder, IDENTITY)
    with running(models=(str(folder),)) as server:
        post: Callable[..., Any] = server.post
        texts = {"query": QUERY, "texts": TEXTS}
        raw = post("/rerank", json=texts | {"raw_scores": True}).json()
        plain = post("/rerank", json=texts).json()
        for fields, scores in (({}, raw), ({"raw_scores": False}, plain)):
            found = post("/v1/rerank", json=BASE | {"model": "ranker"} | fields).json()["results"]
            assert [each["relevance_score"] for each in found] == [each["score"] for each in scores]
        assert raw != plain
