"""Clients of rerankers with their defaults: they get the scores of TEI's route."""

import httpx
import pytest

from tests.clients.conftest import RunClient
from tests.workers import LIMIT_SECONDS

QUERY = "where did the cat sit"
TEXTS = ["the train is late .", "the cat sat on a mat .", "who runs home"]

COHERE = """
import cohere
reply = {}
newer, older = cohere.ClientV2("key", base_url=url), cohere.Client("key", base_url=url)
for name, found in {
    "version 2": newer.rerank(model="rerank-v3.5", query=query, documents=texts),
    "version 1": older.rerank(model="rerank-v3.5", query=query, documents=texts),
    "objects": older.rerank(
        model="rerank-v3.5", query=query, documents=[{"text": text} for text in texts]
    ),
}.items():
    reply[name] = [[each.index, each.relevance_score] for each in found.results]
"""

LANGCHAIN = """
from langchain_cohere import CohereRerank
ranker = CohereRerank(model="rerank-v3.5", cohere_api_key="key", base_url=url)
found = ranker.rerank(texts, query)
reply = {"rerank": [[each["index"], each["relevance_score"]] for each in found]}
"""

HAYSTACK = """
import os
os.environ["HAYSTACK_TELEMETRY_ENABLED"] = "False"
from haystack import Document
from haystack.utils import Secret
from haystack_integrations.components.rankers.cohere import CohereRanker
ranker = CohereRanker(model="rerank-v3.5", api_key=Secret.from_token("key"), api_base_url=url)
ranker.warm_up()
found = ranker.run(query=query, documents=[Document(content=text) for text in texts])["documents"]
reply = {"run": [[texts.index(each.content), each.score] for each in found]}
"""

VOYAGE = """
import voyageai
found = voyageai.Client("key", base_url=url + "/v1").rerank(query, texts, model="rerank-v3.5")
reply = {"rerank": [[each.index, each.relevance_score] for each in found.results]}
"""

LITELLM = """
import os
os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"
import litellm
reply = {}
for model, base, options in [
    ("hosted_vllm/ranker", url, {}),
    ("hosted_vllm/ranker", url + "/v1", {}),
    ("cohere/rerank-v3.5", url, {}),
    ("cohere/rerank-v3.5", url + "/v2/rerank", {}),
    ("jina_ai/ranker", url, {}),
    ("together_ai/ranker", url, {}),
    ("huggingface/ranker", url, {}),
    ("infinity/ranker", url, {"return_documents": False}),
    ("voyage/ranker", url, {"top_n": 3}),
]:
    found = litellm.rerank(
        model=model, query=query, documents=texts, api_base=base, api_key="key", **options
    )
    reply[model + base] = [[each["index"], each["relevance_score"]] for each in found.results]
"""

SCRIPTS = {
    "cohere": COHERE,
    "langchain-cohere": LANGCHAIN,
    "haystack": HAYSTACK,
    "voyageai": VOYAGE,
    "litellm": LITELLM,
}


@pytest.mark.parametrize("client", SCRIPTS)
def test_client_gets_the_scores(run_client: RunClient, url: str, client: str) -> None:
    body = {"query": QUERY, "texts": TEXTS}
    ranks = httpx.post(f"{url}/rerank", json=body, trust_env=False, timeout=LIMIT_SECONDS).json()
    expected = [[rank["index"], rank["score"]] for rank in ranks]
    reply = run_client(f"query, texts = {QUERY!r}, {TEXTS!r}\n{SCRIPTS[client]}")
    assert reply
    assert reply == dict.fromkeys(reply, expected)
