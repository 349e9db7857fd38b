"""LibreTranslate's observable behaviour, row by row, from one process and from several."""

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx
import pytest

from service.api.access import MAX_AGE_SECONDS
from service.state.database import FILE
from tests.api.conftest import Serve
from tests.api.servers import AnyServer, served, translation
from tests.workers import LIMIT_SECONDS

EMOJI = "🎉 👩‍👧"
SUGGESTION = {"q": "Hello.", "s": "Olá!", "source": "en", "target": "pt"}
MISSING = "Invalid request: missing {} parameter"
NOT_A_NUMBER = "Invalid request: alternatives parameter is not a number"
UNDETECTED = {"confidence": 0, "language": "en"}


@pytest.fixture(scope="module", params=[1, 2], ids=["one process", "two HTTP processes"])
def server(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[AnyServer]:
    folder = str(tmp_path_factory.mktemp("state"))
    with served(
        http_workers=request.param, suggestions=True, state=folder, allowed_origins=("*",)
    ) as found:
        yield found


def without(name: str, fields: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in fields.items() if key != name}


def fields_of(q: Any = "Hello.", **changes: Any) -> dict[str, Any]:
    return {"json": translation(q, **changes)}


def limit(name: str, bound: str) -> str:
    return f"Invalid request: {name} parameter must be {bound}"


def no_type(name: str, kind: str, found: str) -> str:
    return f"Invalid request: {name} parameter: Input should be a valid {kind} (it is {found})"


NOT_A_FLAG = "Invalid request: {} parameter must be true or false, not {}"
TRANSLATIONS: list[tuple[dict[str, Any], str]] = [
    (fields_of(""), MISSING.format("q")),
    (fields_of([]), MISSING.format("q")),
    (fields_of(None), MISSING.format("q")),
    *((fields_of(source=code), MISSING.format("source")) for code in (None, "", " ")),
    *((fields_of(target=code), MISSING.format("target")) for code in (None, "", " ")),
    *(
        ({"json": without(name, translation("a"))}, MISSING.format(name))
        for name in translation("")
    ),
    ({"data": {"q": "a", "source": "en"}}, MISSING.format("target")),
    (fields_of(7), no_type("q", "string", "a number")),
    (fields_of({"a": 1}), no_type("q", "string", "an object")),
    (fields_of(["a", None]), no_type("q[1]", "string", "null")),
    (fields_of(["a", "b", ["c"]]), no_type("q[2]", "string", "a list")),
    (fields_of(["a"] * 2049), "Invalid request: request (2049) exceeds text limit (2048)"),
    (fields_of(source="zz"), "zz is not supported"),
    (fields_of(["a", "b"], target="zz"), "zz is not supported"),
    (fields_of(target="auto"), "auto is not supported"),
    (fields_of(target="x" * 500), f"{'x' * 40} is not supported"),
    (fields_of(format="xml"), "xml format is not supported"),
    *((fields_of(alternatives=value), NOT_A_NUMBER) for value in ("abc", 1.5, 10**30)),
    ({"data": translation("a", alternatives="abc")}, NOT_A_NUMBER),
    (fields_of(alternatives=8), limit("alternatives", "<= 7")),
    (fields_of(alternatives=-1), limit("alternatives", ">= 0")),
    (fields_of(beam_size=0), limit("beam_size", ">= 1")),
    (fields_of(beam_size=9), limit("beam_size", "<= 8")),
    (fields_of(beam_size="wide"), NOT_A_NUMBER.replace("alternatives", "beam_size")),
    (fields_of(split_sentences="x"), NOT_A_FLAG.format("split_sentences", "x")),
    (fields_of(return_scores=7), NOT_A_FLAG.format("return_scores", "7")),
    ({"json": [translation("a")]}, "Invalid JSON format"),
]
REFUSED = [
    *(("/translate", *row) for row in TRANSLATIONS),
    ("/detect", {"json": {}}, MISSING.format("q")),
    ("/detect", {"json": {"q": None}}, MISSING.format("q")),
    ("/detect", {}, MISSING.format("q")),
    ("/detect", {"json": ["a"]}, "Invalid JSON format"),
    *(
        ("/suggest", {"json": without(name, SUGGESTION)}, MISSING.format(name))
        for name in ("q", "s", "target")
    ),
    ("/suggest", {"data": without("s", SUGGESTION)}, MISSING.format("s")),
    ("/suggest", {"json": {**SUGGESTION, "s": " "}}, MISSING.format("s")),
    ("/suggest", {"json": {**SUGGESTION, "target": "zz"}}, "zz is not supported"),
    ("/suggest", {"json": [SUGGESTION]}, "Invalid JSON format"),
]


@pytest.mark.parametrize(("path", "request_", "error"), REFUSED)
def test_error_has_exactly_the_known_text(
    server: AnyServer, path: str, request_: dict[str, Any], error: str
) -> None:
    response = server.post(path, **request_)
    assert (response.status_code, response.json()["error"]) == (400, error)


def test_character_limit_has_the_known_text(serve: Serve) -> None:
    server = serve(max_text_chars=5)
    assert server.get("/frontend/settings").json()["charLimit"] == 5
    assert server.translate(["Good.", "Bye."]).status_code == 200
    for path in ("/translate", "/detect"):
        found = server.post(path, data=translation("Hello."))
        assert found.status_code == 400
        assert found.json()["error"] == "Invalid request: request (6) exceeds text limit (5)"
        assert "REGARD_MAX_TEXT_CHARS" in found.json()["details"]


TEXTS = ["Good day.", "The train is late."]


def multipart(q: str) -> dict[str, tuple[None, str]]:
    return {name: (None, value) for name, value in translation(q).items()}


HTTP_FORM = {"content-type": "application/x-www-form-urlencoded"}
SAME: list[tuple[dict[str, Any], str | list[str]]] = [
    ({"json": translation("Good day.")}, "Good day."),
    ({"data": translation("Good day.")}, "Good day."),
    ({"json": translation(TEXTS)}, TEXTS),
    ({"json": translation(TEXTS[:1])}, TEXTS[:1]),
    ({"params": translation("Good day.")}, "Good day."),
    ({"params": {"q": "Good day."}, "data": without("q", translation(""))}, "Good day."),
    ({"params": {"q": "Good day."}, "data": translation("Ignored.")}, "Good day."),
    ({"params": translation("Good day."), "headers": HTTP_FORM}, "Good day."),
    ({"data": translation("One.\r\nTwo.")}, "One.\nTwo."),
    ({"json": translation("One.\r\nTwo.")}, "One.\r\nTwo."),
    ({"json": translation("Good day.", format=None)}, "Good day."),
    ({"json": translation("Good day.", format="")}, "Good day."),
    ({"json": translation("Good day.", alternatives=None, api_key=None)}, "Good day."),
    ({"json": translation("Good day.", api_key=1)}, "Good day."),
    ({"files": multipart("Good day.")}, "Good day."),
    ({"params": without("q", translation("")), "files": {"q": (None, "One.")}}, "One."),
    ({"params": translation("Good day."), "headers": {"content-type": "text/plain"}}, "Good day."),
    ({"data": {"q": TEXTS, "source": "en", "target": "pt"}}, TEXTS),
    ({"files": multipart("One.\r\nTwo.\r\n")}, "One.\nTwo.\n"),
    ({"data": translation("Good day.", format="", api_key="")}, "Good day."),
    ({"json": translation("Good day.", source="EN", target="PT-br")}, "Good day."),
    ({"json": translation(EMOJI)}, EMOJI),
    ({"json": translation([EMOJI, " \n", EMOJI])}, [EMOJI, " \n", EMOJI]),
    ({"json": translation("  \n ")}, "  \n "),
    ({"data": translation(EMOJI)}, EMOJI),
]  # fmt: skip


@pytest.mark.parametrize(("request_", "translated"), SAME)
def test_translation_has_the_shape_of_q(
    server: AnyServer, request_: dict[str, Any], translated: str | list[str]
) -> None:
    response = server.post("/translate", **request_)
    assert (response.status_code, response.json()) == (200, {"translatedText": translated})
    assert response.headers["content-type"] == "application/json"


@pytest.mark.parametrize("q", [EMOJI, " ", "12", [EMOJI], [EMOJI, "\n\n"]])
def test_text_without_a_language_comes_back_unchanged(
    server: AnyServer, q: str | list[str]
) -> None:
    found = server.translate(q, source="auto", format="").json()
    detected: Any = [UNDETECTED] * len(q) if isinstance(q, list) else UNDETECTED
    assert found == {"translatedText": q, "detectedLanguage": detected}


def test_alternatives_are_a_list_for_each_text(server: AnyServer) -> None:
    for number in (3, "3"):
        one = server.translate("Good day.", alternatives=number).json()
        assert isinstance(one["alternatives"], list)
    two = server.translate(["Good day.", EMOJI], alternatives=2, return_scores=True).json()
    assert [type(each) for each in two["alternatives"]] == [list, list]
    ((score,), none) = two["scores"]
    assert (score["score"], none) == (-0.5, [])
    assert "alternatives" not in server.translate("Good day.", alternatives=0).json()


@pytest.mark.parametrize("place", ["json", "data", "params"])
@pytest.mark.parametrize(
    ("q", "language"),
    [
        ("Where is the railway station?", "en"),
        (["Onde fica a estação?", "Quanto custa isto?", "Hello."], "pt"),
    ],
)
def test_detection_ranks_the_served_languages(
    server: AnyServer, place: str, q: str | list[str], language: str
) -> None:
    found = server.post("/detect", **{place: {"q": q}}).json()
    assert [each["language"] for each in found][:1] == [language]
    confidences = [each["confidence"] for each in found]
    assert confidences == sorted(confidences, reverse=True)
    assert all(0 < confidence <= 100 for confidence in confidences)


GERMAN = "Die Kinder hatten Angst vor den Löwen."


def test_unserved_language_is_a_field_of_its_own(server: AnyServer) -> None:
    """Clients that know LibreTranslate alone still get a served language, and a translation."""
    (first, *_) = server.post("/detect", json={"q": GERMAN}).json()
    assert first["language"] in ("en", "pt")
    assert first["unserved"] == "de"
    (first, *_) = server.post("/detect", json={"q": [GERMAN, "The cat sat on the mat."]}).json()
    assert "unserved" not in first
    body = {"q": GERMAN, "source": "auto", "target": "pt"}
    found = server.post("/translate", json=body).json()["detectedLanguage"]
    assert found["unserved"] == "de"


def test_forwarded_address_is_ignored(server: AnyServer) -> None:
    for address in ("203.0.113.9", "x, y", ""):
        headers = {"x-forwarded-for": address}
        response = server.post("/translate", json=translation("Good day."), headers=headers)
        assert response.json() == {"translatedText": "Good day."}
    assert "203.0.113.9" not in server.get("/metrics").text


def test_languages_have_targets(server: AnyServer) -> None:
    assert server.get("/languages").json() == [
        {"code": "en", "name": "English", "targets": ["en", "pt"]},
        {"code": "pt", "name": "Portuguese", "targets": ["en", "pt"]},
    ]


def test_languages_accept_a_get_with_a_form(server: AnyServer) -> None:
    response = server.begin("GET", "/languages", data={"api_key": "x"}).result(LIMIT_SECONDS)
    assert response.json() == server.get("/languages").json()


def test_spec_describes_the_api(server: AnyServer) -> None:
    found = server.get("/spec").json()
    assert found == server.get("/openapi.json").json()
    assert {"/translate", "/detect", "/languages", "/suggest"} <= found["paths"].keys()


REPLIES: list[Callable[[AnyServer], httpx.Response]] = [
    lambda server: server.translate("Good day."),
    lambda server: server.translate("Good day.", target="zz"),
    lambda server: server.get("/languages"),
    lambda server: server.get("/nowhere"),
    lambda server: server.post("/detect", json=translation("Hello.")),
    lambda server: server.get("/translate"),
]


@pytest.mark.parametrize("reply", REPLIES)
def test_every_reply_is_open_to_all_origins(
    server: AnyServer, reply: Callable[[AnyServer], httpx.Response]
) -> None:
    headers = reply(server).headers
    assert headers["access-control-allow-origin"] == "*"
    assert headers["access-control-allow-methods"] == "GET, POST"
    assert headers["access-control-allow-headers"] == "Authorization, Content-Type"
    exposed = {*headers["access-control-expose-headers"].split(", ")}
    assert {"Retry-After", "X-Request-Id", "X-Truncated-Inputs"} <= exposed


@pytest.mark.parametrize(
    ("method", "allowed"),
    [("GET", "GET, POST"), ("POST", "GET, POST"), ("DELETE", "DELETE"), ("PATCH", "PATCH")],
)
def test_preflight_allows_the_method(server: AnyServer, method: str, allowed: str) -> None:
    asked = "authorization, content-type, x-request-id, x-stainless-lang, x-stainless-os"
    headers = {
        "origin": "https://example.org",
        "access-control-request-method": method,
        "access-control-request-headers": asked,
    }
    response = server.begin("OPTIONS", "/v1/models/x", headers=headers).result(LIMIT_SECONDS)
    assert response.status_code == 200
    assert response.headers["access-control-allow-origin"] == "*"
    assert allowed in response.headers["access-control-allow-methods"]
    listed = response.headers["access-control-allow-headers"].split(", ")
    assert {*asked.split(", ")} <= {*listed}
    assert response.headers["access-control-max-age"] == str(MAX_AGE_SECONDS)


def test_metrics_have_neither_keys_nor_addresses(server: AnyServer) -> None:
    server.translate("Good day.", api_key="secret-of-a-client")
    text = server.get("/metrics").text
    assert "secret-of-a-client" not in text
    assert "127.0.0.1" not in text


# Suggestions


@pytest.mark.parametrize("kind", ["json", "data", "params"])
def test_suggestion_is_accepted(server: AnyServer, kind: str) -> None:
    response = server.post("/suggest", **{kind: SUGGESTION})
    assert (response.status_code, response.json()) == (200, {"success": True})
    assert server.get("/frontend/settings").json()["suggestions"] is True


def test_suggestion_is_stored_with_the_served_codes(serve: Serve, tmp_path: Path) -> None:
    server = serve(suggestions=True, state=str(tmp_path))
    server.post("/suggest", json={**SUGGESTION, "source": "auto", "target": "PT_br"})
    server.post("/suggest", data={**SUGGESTION, "source": "EN"})
    with closing(sqlite3.connect(tmp_path / FILE)) as connection:
        rows = connection.execute("SELECT q, s, source, target FROM suggestions").fetchall()
    assert rows == [("Hello.", "Olá!", "auto", "pt"), ("Hello.", "Olá!", "en", "pt")]


def test_server_without_the_setting_refuses_suggestions(serve: Serve) -> None:
    server = serve()
    response = server.post("/suggest", json=SUGGESTION)
    assert response.status_code == 403
    assert response.json()["error"] == "Suggestions are disabled on this server."
    assert server.get("/frontend/settings").json()["suggestions"] is False


def test_suggestion_needs_a_key_too(serve: Serve, tmp_path: Path) -> None:
    server = serve(suggestions=True, state=str(tmp_path), api_keys="right")
    for key, status in ((None, 400), ("wrong", 403), ("right", 200)):
        assert server.post("/suggest", json={**SUGGESTION, "api_key": key}).status_code == status
