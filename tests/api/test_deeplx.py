"""DeepLX's dialect, at its own paths and at LibreTranslate's. The workers echo texts."""

import json
from typing import Any

import pytest

from tests.api.conftest import Serve
from tests.api.servers import Server

PATHS = ("/translate", "/v1/translate", "/deeplx/translate")
TEXT = "The cat sat.\nA dog."


def body(**fields: Any) -> dict[str, Any]:
    return {"text": TEXT, "source_lang": "EN", "target_lang": "PT", **fields}


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize(
    "request_",
    [
        {"json": body()},
        {"data": body()},
        {"content": json.dumps(body()), "headers": {"content-type": "text/plain; charset=utf-8"}},
    ],
)
def test_text_is_translated(server: Server, path: str, request_: dict[str, Any]) -> None:
    reply = server.post(path, **request_).json()
    assert reply.pop("id") > 1e12
    assert reply == {
        "code": 200,
        "data": TEXT,
        "alternatives": [],
        "source_lang": "EN",
        "target_lang": "PT",
        "method": "Free",
    }


@pytest.mark.parametrize("source", ["auto", "", None])
def test_source_is_detected(server: Server, source: str | None) -> None:
    text = "The weather is very nice today and we go to the beach."
    reply = server.post("/translate", json=body(text=text, source_lang=source)).json()
    assert (reply["data"], reply["source_lang"]) == (text, "EN")


@pytest.mark.parametrize("kind", ["html", "xml"])
def test_tags_stay(server: Server, kind: str) -> None:
    text = "<p>A cat &amp; a dog.</p>"
    assert server.post("/translate", json=body(text=text, tag_handling=kind)).json()["data"] == text


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"target_lang": "ZZ"}, "ZZ is not supported; supported: en, pt"),
        ({"target_lang": None}, "missing target_lang"),
        ({"text": ""}, "missing text"),
        ({"text": 7}, "text parameter"),
        ({"tag_handling": "md"}, "md tag_handling is not supported"),
    ],
)
def test_error_has_deeplxs_shape(
    server: Server, path: str, fields: dict[str, Any], words: str
) -> None:
    response = server.post(path, json=body(**fields))
    assert response.status_code == 400
    assert response.json().keys() == {"code", "message"}
    assert response.json()["code"] == 400
    assert words in response.json()["message"]


def test_body_with_q_is_libretranslates(server: Server) -> None:
    both = {"q": "Hello.", "source": "en", "target": "pt", **body()}
    assert server.post("/translate", json=both).json() == {"translatedText": "Hello."}
    assert server.post("/translate", json={}).json()["error"] == (
        "Invalid request: missing q parameter"
    )


def test_key_may_be_in_the_query(serve: Serve) -> None:
    server = serve(api_keys="secret")
    for path in PATHS:
        for name in ("token", "api_key"):
            reply = server.post(path, json=body(), params={name: "secret"})
            assert reply.json()["data"] == TEXT
        wrong = server.post(path, json=body(), params={"token": "wrong"})
        assert wrong.status_code == (403 if path == "/translate" else 401)


def test_libretranslates_wrong_name_of_the_text_gets_its_own_error(server: Server) -> None:
    reply = server.post("/translate", json={"text": TEXT, "source": "en", "target": "pt"})
    assert reply.status_code == 400
    assert "missing q parameter" in reply.json()["error"]
