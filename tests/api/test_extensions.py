"""The forms of browser extensions. The workers echo texts."""

from pathlib import Path
from typing import Any

import pytest

from service.errors import InvalidRequestError, ServiceError, UnsupportedLanguageError
from tests.api.conftest import Serve
from tests.api.servers import Server, assert_error

ENGLISH = "The weather is very nice today and we go to the beach."


def test_imme_translates_a_list(server: Server) -> None:
    texts = ["A cat.", "", "Press <b0>here</b0> {1}."]
    body = {"source_lang": "en", "target_lang": "pt", "text_list": texts}
    expected = [{"detected_source_lang": "en", "text": text} for text in texts]
    assert server.post("/imme", json=body).json() == {"translations": expected}
    detected = server.post("/imme", json={**body, "source_lang": "auto", "text_list": [ENGLISH]})
    assert detected.json()["translations"] == [{"detected_source_lang": "en", "text": ENGLISH}]


@pytest.mark.parametrize(
    ("given", "reply"),
    [
        ({"text": "A cat."}, {"text": "A cat.", "src": "en"}),
        ({"texts": ["A cat."]}, {"translations": [{"text": "A cat.", "src": "en"}]}),
        ({"text": ENGLISH, "from": "auto"}, {"text": ENGLISH, "src": "en"}),
    ],
)
def test_kiss_translates_one_text_or_several(
    server: Server, given: dict[str, Any], reply: dict[str, Any]
) -> None:
    assert server.post("/kiss", json={"from": "en", "to": "pt", **given}).json() == reply


@pytest.mark.parametrize(
    ("given", "source", "target"),
    [
        ({"source": "英语", "destination": ["葡萄牙语"]}, "英语", "葡萄牙语"),
        ({"destination": ["葡萄牙语", "英语"]}, "英语", "葡萄牙语"),
        ({"destination": ["英语", "葡萄牙语"]}, "英语", "葡萄牙语"),
        ({"source": "en", "destination": ["English", "pt"]}, "en", "pt"),
        ({"destination": ["英语"]}, "英语", "英语"),
    ],
)
def test_hcfy_chooses_another_language_than_the_texts(
    server: Server, given: dict[str, Any], source: str, target: str
) -> None:
    text = f"{ENGLISH}\n\nA cat."
    reply = server.post("/hcfy", json={"name": "regard", "text": text, **given}).json()
    assert reply == {"text": text, "from": source, "to": target, "result": text.split("\n")}


def test_hcfy_counts_a_text_once(serve: Serve, tmp_path: Path) -> None:
    server = serve(monthly_characters=100, state=str(tmp_path))
    body = {"text": ENGLISH, "destination": ["英语", "葡萄牙语"]}
    assert server.post("/hcfy", json=body).json()["to"] == "葡萄牙语"
    assert server.get("/v2/usage").json()["character_count"] == len(ENGLISH)


IMME = {"source_lang": "en", "target_lang": "pt", "text_list": ["A cat."]}
KISS = {"from": "en", "to": "pt", "texts": ["A cat."]}
HCFY = {"text": "A cat.", "destination": ["葡萄牙语"]}


@pytest.mark.parametrize(
    ("path", "body", "kind", "words"),
    [
        ("/imme", {**IMME, "text_list": []}, InvalidRequestError, "missing text_list"),
        ("/imme", {**IMME, "text_list": "x"}, InvalidRequestError, "text_list"),
        ("/imme", {**IMME, "target_lang": "zz"}, UnsupportedLanguageError, "zz"),
        ("/kiss", {**KISS, "texts": None}, InvalidRequestError, "missing text "),
        ("/kiss", {**KISS, "texts": []}, InvalidRequestError, "missing texts"),
        ("/kiss", {**KISS, "to": None}, InvalidRequestError, "missing to"),
        ("/kiss", {**KISS, "from": "zz"}, UnsupportedLanguageError, "zz"),
        ("/hcfy", {**HCFY, "destination": []}, InvalidRequestError, "missing destination"),
        ("/hcfy", {**HCFY, "destination": ["德语"]}, UnsupportedLanguageError, "de "),
        ("/hcfy", {**HCFY, "text": ""}, InvalidRequestError, "missing text"),
    ],
)
def test_refusal_names_the_parameter(
    server: Server, path: str, body: dict[str, Any], kind: type[ServiceError], words: str
) -> None:
    assert_error(server.post(path, json=body), kind, words)


def test_key_and_page_are_accepted(serve: Serve) -> None:
    """Extensions send an origin of their own, and the key in the address."""
    server = serve(api_keys="secret")
    headers = {"origin": "chrome-extension://abcdefghijklmnop"}
    for path, body in (("/imme", IMME), ("/kiss", KISS), ("/hcfy", HCFY)):
        assert server.post(path, json=body, headers=headers).status_code == 400
        response = server.post(path, json=body, headers=headers, params={"token": "secret"})
        assert response.status_code == 200
