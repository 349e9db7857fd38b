"""The curl commands of README and docs/, sent to the built-in models."""

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

from service.settings import DEFAULT_MODELS
from tests.documents import PAGES, Command, commands
from tests.workers import LoadTranslationModel

from .servers import Server, running

FILE = "The cat sat on the mat.\n"
"""Content of every file that a command uploads."""
ADMIN_KEY = "key-of-the-test"
REQUESTS = [command for page in PAGES for command in commands(page) if command.words[0] == "curl"]

pytestmark = pytest.mark.checkpoint


@pytest.fixture(scope="module")
def server(
    load_real: LoadTranslationModel, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Server]:
    with running(
        load_real,
        models=DEFAULT_MODELS,
        model_cache=str(tmp_path_factory.mktemp("cache")),
        admin_key=ADMIN_KEY,
        files=True,
        state=str(tmp_path_factory.mktemp("state")),
        device="cpu",
        dtype="float32",
        max_rows=8,
        max_batch_tokens=128,
    ) as server:
        yield server


@pytest.fixture(scope="module")
def glossary_id(server: Server) -> str:
    fields = {"name": "Estate", "source_lang": "en", "target_lang": "pt", "entries_format": "csv"}
    response = server.post("/v2/glossaries", data={**fields, "entries": "house,mansão"})
    found: str = response.json()["glossary_id"]
    return found


def request_of(command: Command, glossary_id: str) -> tuple[str, str, dict[str, Any]]:
    values = {"$REGARD_ADMIN_KEY": ADMIN_KEY, "GLOSSARY_ID": glossary_id}
    words = list(command.words[1:])
    for name, value in values.items():
        words = [word.replace(name, value) for word in words]
    method, path, data = "", "", []
    headers: dict[str, str] = {}
    form: dict[str, Any] = {}
    while words:
        word = words.pop(0)
        if word == "-X":
            method = words.pop(0)
        elif word == "-d":
            data.append(words.pop(0))
        elif word == "-F":
            name, _, value = words.pop(0).partition("=")
            form[name] = (value[1:], FILE) if value.startswith("@") else (None, value)
        elif word == "-H":
            name, _, headers[name] = words.pop(0).partition(": ")
        elif not word.startswith("-s"):
            path = "/" + word.removeprefix("http://").partition("/")[2]
    if form:
        return "POST", path, {"headers": headers, "files": form}
    if data:
        headers.setdefault("Content-Type", "application/x-www-form-urlencoded")
    method = method or ("POST" if data else "GET")
    return method, path, {"headers": headers, "content": "&".join(data).encode()}


def documented(reply: str) -> Any:
    """Parses the JSON of a page, in which a bare … stands for more elements of a list."""
    return json.loads(re.sub(r'(?<!")…(?!")', '"…"', reply))


def assert_agrees(shown: Any, real: Any) -> None:
    """Compares a reply with the page; … stands for anything, and int8 may differ a little."""
    if shown in ("…", ["…"]):
        return
    if isinstance(shown, dict):
        assert shown.keys() - {"…"} <= real.keys()
        assert "…" in shown or shown.keys() == real.keys()
        for name in shown.keys() - {"…"}:
            assert_agrees(shown[name], real[name])
    elif isinstance(shown, list):
        is_start = bool(shown) and shown[-1] == "…"
        assert is_start or len(shown) == len(real)
        for each, other in zip(shown[: len(shown) - is_start], real, strict=False):
            assert_agrees(each, other)
    elif isinstance(shown, float):
        assert real == pytest.approx(shown, rel=0.05, abs=0.02)
    else:
        assert real == shown


@pytest.mark.parametrize("command", REQUESTS, ids=str)
def test_request_gets_the_documented_reply(
    server: Server, glossary_id: str, command: Command
) -> None:
    method, path, arguments = request_of(command, glossary_id)
    response = server.begin(method, path, **arguments).result()
    if path.startswith("/v1/models/"):  # the model of the page has not been pulled
        expected = {"POST": "regard models pull firefox:en-de", "DELETE": "en-de"}
        assert 400 <= response.status_code < 500
        assert expected[method] in response.text
    else:
        assert response.status_code == (201 if path == "/v2/glossaries" else 200), response.text
        is_stream = response.headers["content-type"].startswith("application/x-ndjson")
        shown = (command.reply or '"…"').splitlines() if is_stream else [command.reply or '"…"']
        real = response.text.splitlines() if is_stream else [response.text]
        for reply, body in zip(shown, real, strict=True):
            assert_agrees(documented(reply), json.loads(body))


def test_pages_show_replies() -> None:
    assert sum(bool(command.reply) for command in REQUESTS) >= 6
