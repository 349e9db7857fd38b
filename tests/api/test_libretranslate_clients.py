"""Programs for LibreTranslate work unchanged: a real client, and the requests of four programs.

The server has API keys, as a server on the internet has, and the built-in models.
"""

import json
import re
from collections.abc import Iterator
from typing import Any
from urllib.error import HTTPError
from urllib.parse import urlencode

import pytest
from libretranslatepy import LibreTranslateAPI

from tests.api.conftest import REAL
from tests.api.servers import ApartServer, make_settings
from tests.workers import LoadTranslationModel, Threads

pytestmark = pytest.mark.checkpoint

KEY = "key-of-the-client"
HTML = (
    '<p>The cat sat on the <strong>mat</strong>. <a href="https://example.com/a?b=1">Look</a>!</p>'
)


@pytest.fixture(scope="module")
def server(load_real: LoadTranslationModel) -> Iterator[ApartServer]:
    settings = make_settings(http_workers=2, api_keys=KEY, **REAL)
    with ApartServer(settings, Threads(load_real)) as apart:
        yield apart.until_ready().until_listening()


# libretranslatepy, unmodified


@pytest.fixture(params=["", "/"])
def url(request: pytest.FixtureRequest, server: ApartServer) -> str:
    return f"http://127.0.0.1:{server.port}{request.param}"


def test_libretranslatepy_translates(url: str) -> None:
    client = LibreTranslateAPI(url, KEY)
    text = "The weather is nice.\n\nAre 5 < 6 & 7 > 6? Say {name}: 100%, a+b 🎉"
    translated = client.translate(text, "en", "pt", timeout=60)
    assert "tempo" in translated
    for kept in ("\n\n", "<", "&", ">", "{name}", "100%", "a+b", "🎉"):
        assert kept in translated, translated
    assert client.translate("O tempo está bom.", "auto", "en") == "The weather is good."


def test_libretranslatepy_detects_and_lists(url: str) -> None:
    client = LibreTranslateAPI(url, KEY)
    first, *_ = client.detect("O tempo hoje está muito bonito, meus amigos.")
    assert first["language"] == "pt"
    assert 0 < first["confidence"] <= 100
    assert [(each["code"], each["name"]) for each in client.languages()] == [
        ("en", "English"),
        ("pt", "Portuguese"),
    ]


@pytest.mark.parametrize(
    ("key", "target", "status", "error"),
    [
        ("wrong", "pt", 403, "Invalid API key"),
        (None, "pt", 400, "Please contact the server operator to get an API key"),
        (KEY, "zz", 400, "zz is not supported"),
    ],
)
def test_libretranslatepy_gets_the_known_errors(
    url: str, key: str | None, target: str, status: int, error: str
) -> None:
    client = LibreTranslateAPI(url, key)
    with pytest.raises(HTTPError) as refused:
        client.translate("Hello.", "en", target)
    with refused.value as response:
        assert (response.code, json.load(response)["error"]) == (status, error)


# The requests of four programs


def multipart(fields: dict[str, str]) -> dict[str, Any]:
    """Returns a body as curl writes it; without fields it is the final boundary alone."""
    boundary = "------------------------3f1c9a7e5b2d4068"
    parts = [
        f'--{boundary}\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{value}\r\n'
        for name, value in fields.items()
    ]
    return {
        "content": "".join([*parts, f"--{boundary}--\r\n"]).encode(),
        "headers": {"content-type": f"multipart/form-data; boundary={boundary}"},
    }


FIELDS = {"q": HTML, "source": "en", "target": "pt", "format": "html", "api_key": KEY}
POST = [HTML, "A long story about cats", "The cats are mine", "The dogs"]
STRINGS = ["Hello [X7X], you have [X28X] messages.", "Cancel", "Save the file"]
KEPT = [*re.findall("<[^>]*>", HTML), "gato"]
REQUESTS: dict[str, tuple[dict[str, Any], list[str], list[str]]] = {
    "Mastodon": (
        {
            "content": json.dumps({**FIELDS, "q": POST, "source": "auto"}),
            "headers": {"content-type": "application/json", "user-agent": "Mastodon/4.4.0"},
        },
        KEPT,
        ["Uma longa história sobre gatos", "Os gatos são meus", "Os cães"],
    ),
    "Discourse": (
        {
            "content": urlencode(FIELDS),
            "headers": {"content-type": "application/x-www-form-urlencoded"},
        },
        KEPT,
        [],
    ),
    "Nextcloud, PHP's curl with arrays": (multipart(FIELDS), KEPT, []),
    "Weblate": (
        {"json": {"api_key": KEY, "q": STRINGS, "source": "en", "target": "pt-BR"}},
        ["[X7X]", "[X28X]"],
        ["Cancelar", "Salvar o arquivo"],
    ),
    "older Weblate": (
        {"data": {"api_key": KEY, "q": "Cancel", "source": "en", "target": "pt_BR"}},
        ["Cancelar"],
        [],
    ),
}
"""The requests, the parts of the first translation, and the other translations."""


@pytest.mark.parametrize("program", REQUESTS)
def test_program_translates(server: ApartServer, program: str) -> None:
    request, parts, others = REQUESTS[program]
    response = server.post("/translate", **request)
    assert response.status_code == 200, response.text
    found = response.json()["translatedText"]
    first, *rest = found if isinstance(found, list) else [found]
    assert [part for part in parts if part not in first] == [], first
    assert "The cat" not in first
    assert rest == others
    if program == "Mastodon":
        assert [each["language"] for each in response.json()["detectedLanguage"]] == ["en"] * 4


@pytest.mark.parametrize(
    "empty", [multipart({}), {"headers": {"content-type": "multipart/form-data; boundary=x"}}]
)
def test_nextcloud_sends_empty_forms(server: ApartServer, empty: dict[str, Any]) -> None:
    """It sends GET with an empty form, and the text to detect in the query."""
    form_settings = server.get("/frontend/settings", **empty).json()
    assert (form_settings["apiKeys"], form_settings["keyRequired"]) == (True, True)
    listed = server.get("/languages", **empty).json()
    assert {each["code"]: each["name"] for each in listed} == {"en": "English", "pt": "Portuguese"}
    query = {"q": "The cat sat on the mat & slept.", "api_key": KEY}
    found = server.post("/detect", params=query, **empty)
    assert found.json()[0]["language"] == "en"
