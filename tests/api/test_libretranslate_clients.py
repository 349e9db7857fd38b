"""Programs for LibreTranslate work unchanged: a real client, and the requests of four programs.

The server has API keys, as a server on the internet has, and the built-in models.
"""

import json
import re
from collections.abc import Iterator
from typing import Any
from urllib.error import HTTPError
from urllib.parse import urlencode

import httpx
import pytest
from libretranslatepy import LibreTranslateAPI

from tests.api.conftest import REAL
from tests.api.servers import ApartServer, make_settings
from tests.workers import LIMIT_SECONDS, LoadTranslationModel, Threads

pytestmark = pytest.mark.checkpoint

KEY = "key-of-the-client"
HTML = (
    '<p>The cat sat on the <strong>mat</strong>. <a href="https://example.com/a?b=1">Look</a>!</p>'
)
FORM = {"content-type": "application/x-www-form-urlencoded"}


@pytest.fixture(scope="module")
def server(load_real: LoadTranslationModel) -> Iterator[ApartServer]:
    settings = make_settings(http_workers=2, api_keys=KEY, **REAL)
    with ApartServer(settings, Threads(load_real)) as apart:
        yield apart.until_ready().until_listening()


def assert_html(translated: str) -> None:
    assert re.findall("<[^>]*>", translated) == re.findall("<[^>]*>", HTML)
    assert "gato" in translated
    assert "The cat" not in translated


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


# Mastodon: a list of HTML texts as JSON


def mastodon(server: ApartServer, *texts: str, **fields: Any) -> httpx.Response:
    asked = {"q": [*texts], "source": "en", "target": "pt", "format": "html", "api_key": KEY}
    content = json.dumps(asked | fields)
    headers = {"content-type": "application/json", "user-agent": "Mastodon/4.4.0 (http.rb/5.2.0)"}
    return server.post("/translate", content=content, headers=headers)


def test_mastodon_reads_the_pairs(server: ApartServer) -> None:
    found = server.get("/languages").json()
    pairs = {each["code"]: [to for to in each["targets"] if to != each["code"]] for each in found}
    assert pairs == {"en": ["pt"], "pt": ["en"]}


@pytest.mark.parametrize("source", ["en", "auto"])
def test_mastodon_translates_a_post(server: ApartServer, source: str) -> None:
    post = [HTML, "A long story about cats", "The cats are mine", "The dogs"]
    found = mastodon(server, *post, source=source).json()
    first, *others = found["translatedText"]
    assert_html(first)
    assert others == ["Uma longa história sobre gatos", "Os gatos são meus", "Os cães"]
    if source == "auto":
        assert [each["language"] for each in found["detectedLanguage"]] == ["en"] * 4


def test_mastodon_gets_errors_that_it_knows(server: ApartServer) -> None:
    assert mastodon(server, HTML, api_key="wrong").status_code == 403
    assert mastodon(server, HTML, api_key=None).status_code == 400


# Discourse: forms, one text each


def test_discourse_detects_and_translates_a_post(server: ApartServer) -> None:
    """It detects the language of the post without tags, and compares it with the languages."""
    content = urlencode({"q": "The cat sat on the mat. Look!", "api_key": KEY})
    found = server.post("/detect", content=content, headers=FORM).json()
    language = found[0]["language"]
    codes = [each["code"] for each in server.get("/languages").json()]
    assert language in codes
    assert "pt" in codes
    asked = {"q": HTML, "source": language, "target": "pt", "format": "html", "api_key": KEY}
    response = server.post("/translate", content=urlencode(asked), headers=FORM)
    assert response.status_code == 200
    assert_html(response.json()["translatedText"])


# Nextcloud: PHP's curl with arrays sends multipart forms


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


@pytest.mark.parametrize(
    "empty", [multipart({}), {"headers": {"content-type": "multipart/form-data; boundary=x"}}]
)
def test_nextcloud_detects_and_translates(server: ApartServer, empty: dict[str, Any]) -> None:
    """It sends GET with an empty form, and the text to detect in the query."""
    form_settings = server.begin("GET", "/frontend/settings", **empty).result(LIMIT_SECONDS).json()
    assert (form_settings["apiKeys"], form_settings["keyRequired"]) == (True, True)
    listed = server.begin("GET", "/languages", **empty).result(LIMIT_SECONDS).json()
    assert {each["code"]: each["name"] for each in listed} == {"en": "English", "pt": "Portuguese"}
    query = {"q": "The cat sat on the mat & slept.", "api_key": KEY}
    found = server.post("/detect", params=query, **empty)
    assert found.json()[0]["language"] == "en"
    asked = {"q": HTML, "format": "html", "source": "en", "target": "pt", "api_key": KEY}
    response = server.post("/translate", **multipart(asked))
    assert response.status_code == 200, response.text
    assert_html(response.json()["translatedText"])


# Weblate: lists without a format; older versions send one text as a form


def test_weblate_translates_strings(server: ApartServer) -> None:
    codes = [each["code"] for each in server.get("/languages").json()]
    assert {"en", "pt"} <= {*codes}
    texts = ["Hello [X7X], you have [X28X] messages.", "Cancel", "Save the file"]
    asked = {"api_key": KEY, "q": texts, "source": "en", "target": "pt-BR"}
    first, *others = server.post("/translate", json=asked).json()["translatedText"]
    assert "[X7X]" in first
    assert "[X28X]" in first
    assert others == ["Cancelar", "Salvar o arquivo"]


def test_older_weblate_translates_one_string(server: ApartServer) -> None:
    asked = {"api_key": KEY, "q": "Cancel", "source": "en", "target": "pt_BR"}
    assert server.post("/translate", data=asked).json() == {"translatedText": "Cancelar"}
