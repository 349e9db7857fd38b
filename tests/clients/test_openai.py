"""OpenAI's client with its defaults."""

from tests.clients.conftest import RunClient


def test_openai_embeds(run_client: RunClient) -> None:
    reply = run_client("""
import openai
client = openai.OpenAI(base_url=url + "/v1", api_key="none")
found = client.embeddings.create(model="text-embedding-3-small", input=["a cat", "a dog"])
reply = [found.model, [len(each.embedding) for each in found.data]]
""")
    assert reply == ["all-MiniLM-L6-v2", [384, 384]]
