"""DeepL's client with its defaults, and requests of programs that have a client of their own."""

from typing import Any

import httpx
import pytest

from tests.clients.conftest import RunClient


def test_deepl_translates(run_client: RunClient) -> None:
    reply = run_client("""
import io
import deepl
client = deepl.DeepLClient("none", server_url=url)
languages = {each.code: each.name for each in client.get_target_languages()}
glossary = client.create_glossary("Estate", "EN", "PT", {"house": "vivenda"})
texts = client.translate_text(
    ["The house is red.", "The cat sleeps."],
    source_lang="EN",
    target_lang="PT-BR",
    formality="less",
    glossary=glossary,
)
document = io.BytesIO()
client.translate_document(
    "The house is red.", document, target_lang="PT-BR", filename="a.txt"
)
reply = [
    languages["PT-BR"],
    [each.text for each in texts],
    document.getvalue().decode(),
    client.get_usage().character.count,
]
client.delete_glossary(glossary)
""")
    texts = ["A vivenda é vermelha.", "O gato dorme."]
    assert reply == ["Brazilian Portuguese", texts, "A casa é vermelha.", 49]


LINES = "Good morning.\n\n- First item\n- Second item"


@pytest.mark.parametrize(
    "body",
    [
        {"tag_handling": "xml", "ignore_tags": ["x"], "formality": "default"},
        {"tag_handling": "html"},
        {"formality": "less"},
    ],
    ids=["Weblate", "Nextcloud", "Subtitle Edit"],
)
def test_lines_come_back(url: str, body: dict[str, Any]) -> None:
    fields = {"text": [LINES], "source_lang": "EN", "target_lang": "PT-BR", **body}
    reply = httpx.post(f"{url}/v2/translate", json=fields, trust_env=False, timeout=60).json()
    text = "Bom dia.\n\n- Primeiro item\n- Segundo item"
    assert [each["text"] for each in reply["translations"]] == [text]
