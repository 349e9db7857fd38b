"""TEI's routes besides /embed and /rerank, and TEI's errors, through the whole server."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.api.servers import Server, running

PAIR = ["where did the cat sit", "the cat sat on a mat ."]


@pytest.fixture(scope="module")
def server(small_models: dict[str, str]) -> Iterator[Server]:
    models = small_models["embedder"], small_models["ranker"]
    with running(models=models, max_inputs=4) as server:
        yield server


@pytest.fixture(scope="module")
def ranker(small_models: dict[str, str]) -> Iterator[Server]:
    with running(models=(small_models["ranker"],)) as server:
        yield server


def test_base_address_embeds_and_shows_the_page(server: Server) -> None:
    body = {"inputs": ["hello world", "a"]}
    assert server.post("/", json=body).json() == server.post("/embed", json=body).json()
    assert server.get("/").headers["content-type"].startswith("text/html")


def test_base_address_reranks_on_a_server_of_cross_encoders(ranker: Server) -> None:
    body = {"query": PAIR[0], "texts": PAIR}
    assert ranker.post("/", json=body).json() == ranker.post("/rerank", json=body).json()


def test_embeddings_without_prefix_have_openais_shapes(server: Server) -> None:
    body = {"input": "hello"}
    found = server.post("/embeddings", json=body).json()
    assert found == server.post("/v1/embeddings", json=body).json()
    error = server.post("/embeddings", json={"input": [3]}).json()["error"]
    assert (error["type"], error["param"]) == ("invalid_request_error", "input")


def test_tokens_have_places_in_the_text(server: Server) -> None:
    response = server.post("/tokenize", json={"inputs": " hello unbelievable"})
    assert response.json() == [
        [
            {"id": 1, "text": "[CLS]", "special": True, "start": None, "stop": None},
            {"id": 7, "text": "hello", "special": False, "start": 1, "stop": 6},
            {"id": 4, "text": "un", "special": False, "start": 7, "stop": 9},
            {"id": 5, "text": "believ", "special": False, "start": 9, "stop": 15},
            {"id": 6, "text": "able", "special": False, "start": 15, "stop": 19},
            {"id": 2, "text": "[SEP]", "special": True, "start": None, "stop": None},
        ]
    ]


def test_long_text_has_all_its_tokens(server: Server) -> None:
    body = {"inputs": ["a b c " * 20, "a"], "add_special_tokens": False}
    long, short = server.post("/tokenize", json=body).json()
    assert [token["id"] for token in long] == [9, 10, 11] * 20
    assert [long[-1]["start"], long[-1]["stop"]] == [118, 119]
    assert [token["id"] for token in short] == [9]


def test_ids_become_texts_again(server: Server) -> None:
    assert server.post("/decode", json={"ids": [1, 7, 8, 2]}).json() == ["hello world"]
    body = {"ids": [[7], [9, 2]], "skip_special_tokens": False}
    assert server.post("/decode", json=body).json() == ["hello", "a [SEP]"]


def test_info_names_the_default_model(server: Server, ranker: Server) -> None:
    info = server.get("/info").json()
    assert (info["model_id"], info["model_dtype"]) == ("embedder", "float32")
    assert info["model_type"] == {"embedding": {"pooling": "mean"}}
    assert (info["max_input_length"], info["max_client_batch_size"]) == (12, 4)
    labels = {"id2label": {"0": "LABEL_0"}, "label2id": {"LABEL_0": 0}}
    assert ranker.get("/info").json()["model_type"] == {"reranker": labels}


def test_ping_is_empty(server: Server) -> None:
    response = server.get("/ping")
    assert (response.status_code, response.content) == (200, b"")


def test_prediction_is_the_score_of_a_pair(server: Server) -> None:
    ranks = server.post("/rerank", json={"query": PAIR[0], "texts": [PAIR[1]]}).json()
    (one,) = server.post("/predict", json={"inputs": PAIR}).json()
    assert one == {"score": ranks[0]["score"], "label": "LABEL_0"}
    pair, alone = server.post("/predict", json={"inputs": [PAIR, [PAIR[1]]]}).json()
    assert pair == [one]
    assert alone == server.post("/predict", json={"inputs": PAIR[1]}).json() != pair


@pytest.mark.parametrize(
    ("path", "body", "status", "error_type", "words"),
    [
        ("/embed", {}, 422, "Validation", "missing inputs"),
        ("/", {"inputs": []}, 422, "Validation", "inputs parameter is an empty list"),
        ("/embed", {"inputs": ["a"] * 5}, 422, "Validation", "the limit is 4"),
        ("/embed", {"inputs": "a " * 20, "truncate": False}, 422, "Validation", "takes 12"),
        ("/embed", {"inputs": "a", "model": "ranker"}, 424, "Backend", "embedder"),
        ("/predict", {"inputs": "a", "model": "embedder"}, 424, "Backend", "ranker"),
        ("/predict", {"inputs": ["a", "b", "c"]}, 422, "Validation", "a pair of texts"),
        ("/predict", {"inputs": [["a"], ["a", ""]]}, 422, "Validation", "inputs[1]"),
        ("/decode", {"ids": [5000]}, 422, "Validation", "5000"),
        ("/decode", {"ids": ["a"]}, 422, "Validation", "list of token ids"),
        ("/tokenize", {"inputs": "a", "prompt_name": "no"}, 422, "Validation", "prompt_name"),
    ],
)
def test_errors_have_the_statuses_of_tei(
    server: Server, path: str, body: dict[str, Any], status: int, error_type: str, words: str
) -> None:
    response = server.post(path, json=body)
    found = response.json()
    assert (response.status_code, found["error_type"]) == (status, error_type)
    assert words in found["error"]
    assert found["request_id"] == response.headers["x-request-id"]
