"""Clients of embeddings with their defaults: they get the vectors of TEI's route."""

import httpx
import numpy as np
import pytest
from numpy.testing import assert_allclose

from tests.clients.conftest import RunClient
from tests.workers import LIMIT_SECONDS

TEXTS = ["A cat is sitting.", "The train is late."]

COHERE = """
import cohere
newer, older = cohere.ClientV2("key", base_url=url), cohere.Client("key", base_url=url)
asked = {"texts": texts, "model": "text-embedding-3-small", "input_type": "search_query"}
by_type = newer.embed(**asked, embedding_types=["float", "int8", "ubinary"]).embeddings
assert len(by_type.int8[0]) == 8 * len(by_type.ubinary[0]) == len(by_type.float_[0])
reply = {
    "version 2": by_type.float_,
    "version 1": older.embed(**asked).embeddings,
    "version 1, by type": older.embed(**asked, embedding_types=["float"]).embeddings.float_,
}
"""

LANGCHAIN = """
from langchain_cohere import CohereEmbeddings
model = CohereEmbeddings(model="text-embedding-3-small", cohere_api_key="key", base_url=url)
reply = {
    "documents": model.embed_documents(texts),
    "queries": [model.embed_query(text) for text in texts],
}
"""

OLLAMA = """
import ollama
client = ollama.Client(url)
names = [model.model for model in client.list().models]
assert client.show(names[0]).capabilities == ["embedding"]
reply = {name: client.embed(name, texts).embeddings for name in names}
reply["older"] = [client.embeddings(names[0], text).embedding for text in texts]
"""

VOYAGE = """
import voyageai
client = voyageai.Client("key", base_url=url + "/v1")
reply = {"embed": client.embed(texts, model="text-embedding-3-small").embeddings}
"""

LITELLM = """
import os
os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"
import litellm
name = "text-embedding-3-small"
reply = {}
for model, base in [
    ("openai/", url + "/v1"),
    ("hosted_vllm/", url + "/v1"),
    ("cohere/", url + "/v2/embed"),
    ("jina_ai/", url + "/v1"),
    ("infinity/", url),
    ("ollama/", url),
    ("voyage/", url + "/v1"),
]:
    found = litellm.embedding(model=model + name, input=texts, api_base=base, api_key="key")
    reply[model] = [each["embedding"] for each in found.data]
"""

SCRIPTS = {
    "cohere": COHERE,
    "langchain-cohere": LANGCHAIN,
    "ollama": OLLAMA,
    "voyageai": VOYAGE,
    "litellm": LITELLM,
}


@pytest.mark.parametrize("client", SCRIPTS)
def test_client_gets_the_vectors(run_client: RunClient, url: str, client: str) -> None:
    expected = httpx.post(
        f"{url}/embed", json={"inputs": TEXTS}, trust_env=False, timeout=LIMIT_SECONDS
    ).json()
    reply = run_client(f"texts = {TEXTS!r}\n{SCRIPTS[client]}")
    assert reply
    for name, found in reply.items():
        assert_allclose(np.array(found), expected, atol=1e-7, err_msg=name)
