"""Models with a Router through the whole server: a request names the form of its texts."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from tests.api.servers import AnyServer, running
from tests.parity.test_routers import TEXTS, write_means, write_sparse


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AnyServer]:
    folder = tmp_path_factory.mktemp("models")
    write_means(folder / "dense")
    write_sparse(folder / "sparse")
    with running(models=(str(folder / "dense"), str(folder / "sparse"))) as server:
        yield server


def answer(server: AnyServer, path: str, **fields: Any) -> Any:
    return server.reply(path, fields)


def test_purpose_chooses_the_form(server: AnyServer) -> None:
    def vectors(**fields: Any) -> np.ndarray:
        reply = answer(server, "/v1/embeddings", input=TEXTS, model="dense", **fields)
        return np.array([each["embedding"] for each in reply["data"]])

    def named(**fields: Any) -> np.ndarray:
        return np.array(answer(server, "/embed", inputs=TEXTS, model="dense", **fields))

    query, document = named(prompt_name="query"), named()
    assert np.abs(query - document).max() > 0.1
    np.testing.assert_array_equal(vectors(input_type="search_query"), query)
    np.testing.assert_array_equal(vectors(input_type="document"), document)
    np.testing.assert_array_equal(vectors(), document)
    np.testing.assert_allclose(np.linalg.norm(query, axis=1), 1.0, atol=1e-6)


def test_sparse_queries_have_only_words_of_their_text(server: AnyServer) -> None:
    def words(**fields: Any) -> list[int]:
        fields = {"inputs": "hello world a", "model": "sparse", **fields}
        return [each["index"] for each in answer(server, "/embed_sparse", **fields)[0]]

    assert words(prompt_name="query") == [8, 9]  # the weight of `hello` is 0
    assert len(words()) > 2


def test_unknown_form_is_refused(server: AnyServer) -> None:
    body = {"inputs": "a", "model": "dense", "prompt_name": "x"}
    response = server.post("/embed", json=body)
    assert response.status_code == 422
    assert "this model has: query, document" in response.text
