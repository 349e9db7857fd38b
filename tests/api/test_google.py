"""Google's routes: the requests of its clients, HTML, and errors in Google's shape."""

from typing import Any

import httpx
import pytest

from service.api.google import PATH, google_shape
from service.errors import OverloadedError
from service.tasks.context import RequestContext
from tests.api.conftest import Serve
from tests.api.servers import Server
from tests.workers import LIMIT_SECONDS

WEATHER, TEMPO = "The weather is beautiful today.", "O tempo hoje está muito bonito."
JSON = {"content-type": "application/json"}


def translations(response: httpx.Response) -> list[dict[str, Any]]:
    assert response.status_code == 200, response.text
    found: list[dict[str, Any]] = response.json()["data"]["translations"]
    return found


GIVEN = {"source": "en", "target": "pt", "format": "text"}
REQUESTS: dict[str, tuple[str, dict[str, Any], list[dict[str, str]]]] = {
    "google-cloud-python": (
        "POST",
        {"json": {"target": "pt", "q": ["A.", "B."], "cid": [], "format": None, "source": None}},
        [{"translatedText": text, "detectedSourceLanguage": "en"} for text in ("A.", "B.")],
    ),
    "google-cloud-node": (
        "POST",
        {"json": {"q": ["A."], "format": "text", "target": "pt", "from": "en", "source": "en"}},
        [{"translatedText": "A."}],
    ),
    "Weblate": ("GET", {"params": {"key": "k", "q": "A.", **GIVEN}}, [{"translatedText": "A."}]),
    "fetch, key in the query": (
        "POST",
        {"params": {"key": "k"}, "json": {"q": "A.", **GIVEN}},
        [{"translatedText": "A."}],
    ),
    "form": (
        "POST",
        {"data": {"q": ["A.", "B."], "model": "nmt", **GIVEN}},
        [{"translatedText": text, "model": "nmt"} for text in ("A.", "B.")],
    ),
    "long GET": (
        "POST",
        {"data": {"q": "A.", **GIVEN}, "headers": {"x-http-method-override": "GET"}},
        [{"translatedText": "A."}],
    ),
    "RestClient, all in the query": (
        "POST",
        {"params": {"q": ["A.", "B."], **GIVEN}, "headers": {"content-type": "application/json"}}
        | {"content": b"{}"},
        [{"translatedText": "A."}, {"translatedText": "B."}],
    ),
    "source auto": (
        "GET",
        {"params": {"q": TEMPO, "target": "pt-BR", "source": "auto"}},
        [{"translatedText": TEMPO, "detectedSourceLanguage": "pt"}],
    ),
}
"""Requests as the public code of clients sends them, and the members of the reply."""


@pytest.mark.parametrize("client", REQUESTS)
def test_request_of_a_client(server: Server, client: str) -> None:
    method, request, expected = REQUESTS[client]
    response = server.begin(method, PATH, **request).result(LIMIT_SECONDS)
    found = translations(response)
    if "detectedSourceLanguage" in expected[0] and client != "source auto":
        found = [{**each, "detectedSourceLanguage": "en"} for each in found]
    assert found == expected


@pytest.mark.parametrize(
    ("text", "html"),
    [
        ("It's 5 &lt; 6.", "It&#39;s 5 &lt; 6."),
        ('Say "yes" &amp; go.', "Say &quot;yes&quot; &amp; go."),
        ("""<p id="it's">It's here.</p>""", """<p id="it's">It&#39;s here.</p>"""),
        ("""<script>a = "b";</script>It's.""", """<script>a = "b";</script>It&#39;s."""),
    ],
)
def test_html_is_the_default_and_has_entities(server: Server, text: str, html: str) -> None:
    (found,) = translations(server.post(PATH, json={"q": text, "source": "en", "target": "pt"}))
    assert found["translatedText"] == html
    plain = {"q": 'It\'s a "b".', **GIVEN}
    assert translations(server.post(PATH, json=plain))[0]["translatedText"] == plain["q"]


def test_languages_are_detected(server: Server) -> None:
    texts = [WEATHER, "Das ist nicht gut und ich bin der Mann.", "123"]
    for request in ({"json": {"q": texts}}, {"data": {"q": texts}}, {"params": {"q": texts}}):
        response = server.post(f"{PATH}/detect", **request)
        assert response.status_code == 200, response.text
        (english,), (german,), (none,) = response.json()["data"]["detections"]
        assert (english["language"], english["isReliable"]) == ("en", True)
        assert 0.5 < english["confidence"] <= 1
        assert german["language"] == "de"
        assert none == {"language": "und", "isReliable": False, "confidence": 0}
    one = server.get(f"{PATH}/detect", params={"q": TEMPO}).json()["data"]["detections"]
    assert [[each["language"] for each in found] for found in one] == [["pt"]]


def test_languages_are_listed_without_a_key(serve: Serve) -> None:
    server = serve(api_keys="key")
    plain = server.get(f"{PATH}/languages").json()["data"]
    assert plain == {"languages": [{"language": "en"}, {"language": "pt"}]}
    named = server.get(f"{PATH}/languages", params={"target": "pt", "model": "nmt"}).json()["data"]
    assert [each["name"] for each in named["languages"]] == ["Inglês", "Português"]
    assert server.get(PATH, params={"q": "A.", "key": "key", **GIVEN}).status_code == 200


def test_full_queue_is_resource_exhausted() -> None:
    status, body = google_shape(OverloadedError("m", 1, "requests"), RequestContext("id"))
    assert (status, body["error"]["status"]) == (429, "RESOURCE_EXHAUSTED")


@pytest.mark.parametrize(
    ("path", "request_", "code", "reason", "words"),
    [
        ("", {"json": {"q": "A."}}, 400, "invalid", "missing target parameter"),
        ("", {"json": {"target": "pt"}}, 400, "invalid", "missing q parameter"),
        ("", {"json": {"q": [], "target": "pt"}}, 400, "invalid", "missing q parameter"),
        ("", {"json": {"q": "A.", "target": "zz"}}, 400, "invalid", "zz is not supported"),
        ("", {"json": {"q": "A.", **GIVEN, "format": "x"}}, 400, "invalid", "use html or text"),
        ("", {"content": b"{", "headers": JSON}, 400, "invalid", "Invalid JSON"),
        ("", {"json": {"q": ["A."] * 2049, **GIVEN}}, 400, "invalid", "REGARD_MAX_INPUTS"),
        ("/x", {"json": {}}, 404, "notFound", "no such address"),
    ],
)
def test_error_has_googles_shape(
    server: Server, path: str, request_: dict[str, Any], code: int, reason: str, words: str
) -> None:
    response = server.post(PATH + path, **request_)
    error = response.json()["error"]
    assert response.status_code == error["code"] == code
    assert words in error["message"]
    assert error["errors"] == [{"message": error["message"], "domain": "global", "reason": reason}]
    assert error["status"] == ("NOT_FOUND" if code == 404 else "INVALID_ARGUMENT")
