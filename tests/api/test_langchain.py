"""LangChain's client of OpenAI, which sends token ids by default; a setting says whose they are."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import httpx2
import numpy as np
import openai
import pytest
from numpy.testing import assert_array_equal

from service.server import create_app
from tests.api.servers import LiveServer, make_settings, running
from tests.embedding_reference import Reference
from tests.workers import LIMIT_SECONDS, Script, Threads

NAME = "text-embedding-3-small"
TEXTS = ["hello world a b c .", "a world un"]


@pytest.fixture(scope="module", autouse=True)
def _vocabulary() -> Iterator[None]:
    """OpenAI's vocabulary would be downloaded. One of single bytes gives requests of its form."""
    tiktoken = pytest.importorskip("tiktoken")
    of_bytes = tiktoken.Encoding(
        "cl100k_base",
        pat_str=r"\S+|\s+",
        mergeable_ranks={bytes([byte]): byte for byte in range(256)},
        special_tokens={},
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(tiktoken.registry.ENCODINGS, "cl100k_base", of_bytes)
        yield


@pytest.fixture(scope="module")
def server(embedding_folder: str) -> Iterator[LiveServer]:
    settings = make_settings(models=(embedding_folder,), model_aliases=(f"{NAME}=tiny",))
    with LiveServer(create_app(settings, Threads(Script().load))) as live:
        yield live


@pytest.fixture
def embeddings(server: LiveServer) -> Iterator[Callable[..., Any]]:
    langchain = pytest.importorskip("langchain_openai")  # its import takes a second
    with httpx2.Client(trust_env=False, timeout=LIMIT_SECONDS) as http:
        yield partial(
            langchain.OpenAIEmbeddings,
            base_url=f"http://127.0.0.1:{server.port}/v1",
            api_key="none",
            model=NAME,
            http_client=http,
        )


def test_ids_of_another_vocabulary_are_refused(embeddings: Callable[..., Any]) -> None:
    with pytest.raises(openai.BadRequestError, match="check_embedding_ctx_length=False"):
        embeddings().embed_documents(TEXTS)
    with pytest.raises(openai.BadRequestError, match="input has token ids") as refused:
        embeddings().embed_query(TEXTS[0])
    assert refused.value.param == "input"
    assert "Send texts" in refused.value.message
    assert "REGARD_OPENAI_TOKEN_IDS" in refused.value.message


def test_texts_get_their_vectors(embeddings: Callable[..., Any], embedding_folder: str) -> None:
    expected = Reference(embedding_folder).vectors(*TEXTS)
    client = embeddings(check_embedding_ctx_length=False)
    assert_array_equal(client.embed_documents(TEXTS), expected)
    assert_array_equal(client.embed_query(TEXTS[1]), expected[1])


def test_ids_are_the_models_own_by_setting(embedding_folder: str) -> None:
    reference = Reference(embedding_folder)
    with running(models=(embedding_folder,), openai_token_ids=True) as server:
        for given, texts in (
            ([9, 10, 11], ["a b c"]),
            ([[9, 10], [11]], ["a b", "c"]),
            (["a b", [11]], ["a b", "c"]),
        ):
            response = server.post("/v1/embeddings", json={"input": given})
            found = [item["embedding"] for item in response.json()["data"]]
            assert_array_equal(np.array(found, np.float32), reference.vectors(*texts))
