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


def test_openai_chats(run_client: RunClient) -> None:
    reply = run_client("""
import openai
client = openai.OpenAI(base_url=url + "/v1", api_key="none")
prompt = "Translate from English to Portuguese:\\n\\nThe cat sat on the mat. The dog is big."
asked = dict(model="gpt-4o-mini", messages=[{"role": "user", "content": prompt}], temperature=0.2)
whole = client.chat.completions.create(**asked)
options = {"include_usage": True}
events = [*client.chat.completions.create(**asked, stream=True, stream_options=options)]
parts = [each.choices[0].delta.content for each in events if each.choices]
reply = [whole.choices[0].message.content, [each for each in parts if each], str(whole.usage),
         str(events[-1].usage)]
""")
    text, parts, *usages = reply
    assert text == "".join(parts)
    assert len(parts) == 2
    assert "gato" in text
    assert usages[0] == usages[1]
