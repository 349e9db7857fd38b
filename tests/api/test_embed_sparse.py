"""Sparse vectors through the whole server, with a small SPLADE model and a dense one."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from model.encoding.embedding import EmbeddingJob, embed
from service.errors import InvalidRequestError
from tests.api.servers import AnyServer, assert_error, running
from tests.parity.test_splade import TEXTS, read, write
from tests.tiny_text import write_model


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sparse")
    write(folder / "splade")
    write_model(folder / "dense")
    return folder


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[AnyServer]:
    with running(models=(str(folder / "splade"), str(folder / "dense"))) as server:
        yield server


def test_words_and_weights_are_those_of_the_model(server: AnyServer, folder: Path) -> None:
    response = server.post("/embed_sparse", json={"inputs": TEXTS})
    assert response.status_code == 200, response.text
    assert response.headers["X-Compute-Tokens"]
    model, texts = read(folder / "splade")
    for body, found in zip(response.json(), embed(model, [*map(EmbeddingJob, texts)]), strict=True):
        assert [each["index"] for each in body] == found[:, 0].tolist()
        assert [each["value"] for each in body] == pytest.approx(found[:, 1].tolist(), abs=1e-6)


def test_one_text_gets_one_list(server: AnyServer) -> None:
    several = server.post("/embed_sparse", json={"inputs": TEXTS}).json()
    assert server.post("/embed_sparse", json={"inputs": TEXTS[1]}).json() == [several[1]]


def test_each_route_takes_its_kind_of_model(server: AnyServer) -> None:
    assert len(server.post("/embed", json={"inputs": "hello"}).json()[0]) == 16
    body = {"inputs": "hello", "model": "splade"}
    words = "splade has sparse vectors; send the request to /embed_sparse", "another model"
    assert_error(server.post("/embed", json=body), InvalidRequestError, *words)
    body = {"inputs": "hello", "model": "dense"}
    words = "dense has dense vectors; send the request to /embed", "another model"
    assert_error(server.post("/embed_sparse", json=body), InvalidRequestError, *words)
