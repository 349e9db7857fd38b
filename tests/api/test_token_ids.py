"""Token ids at /v1/embeddings: refused, unless a setting says that they are the model's own."""

from collections.abc import Iterator
from typing import Any

import httpx
import numpy as np
import pytest
from numpy.testing import assert_array_equal

from model.encoding.embedding import Vectors
from service.server import create_app
from tests.api.servers import Server, make_settings
from tests.embedding_reference import Reference
from tests.workers import Script, Threads

IDS = [([9, 10, 11], ["a b c"]), ([[9, 10], [11]], ["a b", "c"]), (["a b", [11]], ["a b", "c"])]


@pytest.fixture(scope="module", params=[False, True])
def server(request: pytest.FixtureRequest, embedding_folder: str) -> Iterator[Server]:
    settings = make_settings(models=(embedding_folder,), openai_token_ids=request.param)
    with Server(create_app(settings, Threads(Script().load))) as running:
        yield running.until_ready()


def embeddings(server: Server, given: Any) -> httpx.Response:
    return server.post("/v1/embeddings", json={"input": given})


def vectors(response: httpx.Response) -> Vectors:
    assert response.status_code == 200, response.text
    found = [item["embedding"] for item in response.json()["data"]]
    made: Vectors = np.array(found, dtype=np.float32)
    return made


@pytest.mark.parametrize(("given", "texts"), IDS)
def test_ids_are_the_models_own_only_by_setting(
    server: Server, reference: Reference, given: Any, texts: list[str]
) -> None:
    response = embeddings(server, given)
    if server.app.services.settings.openai_token_ids:
        assert_array_equal(vectors(response), reference.vectors(*texts))
        return
    error = response.json()["error"]
    assert response.status_code == 400
    assert (error["type"], error["param"]) == ("invalid_request_error", "input")
    for word in ("Send texts", "check_embedding_ctx_length=False", "REGARD_OPENAI_TOKEN_IDS"):
        assert word in error["message"]
