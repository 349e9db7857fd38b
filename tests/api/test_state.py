"""Servers whose state cannot be used: what goes on, what gets 503, and what the operator sees."""

import logging
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest

from service.errors import UnavailableError
from service.state import database
from service.state.database import NOT_WRITABLE
from tests.api.conftest import Serve, ServeApart
from tests.api.servers import AnyServer, assert_error, translation
from tests.workers import LIMIT_SECONDS, until

PAIR = {"source_lang": "en", "target_lang": "pt"}
GLOSSARY = {"name": "a", "entries": "cat\tgato", **PAIR}
SUGGESTION = {"q": "a", "s": "b", "source": "en", "target": "pt"}
STREAM = {"headers": {"accept": "application/x-ndjson"}}

NEEDING: dict[str, Callable[[AnyServer], httpx.Response]] = {
    "POST /suggest": lambda server: server.post("/suggest", json=SUGGESTION),
    "POST /v2/glossaries": lambda server: server.post("/v2/glossaries", json=GLOSSARY),
    "GET /v3/glossaries": lambda server: server.get("/v3/glossaries"),
    "/translate with a glossary": lambda server: server.translate("Hello.", glossary="x"),
}
COUNTING: dict[str, Callable[[AnyServer], httpx.Response]] = {
    "/translate": lambda server: server.translate("Hello."),
    "/translate as a stream": lambda server: server.post(
        "/translate", json=translation("Hello."), **STREAM
    ),
    "/v2/translate": lambda server: server.post("/v2/translate", json={"text": ["Hi."], **PAIR}),
    "/v2/usage": lambda server: server.get("/v2/usage"),
    "/translate_file": lambda server: server.post(
        "/translate_file",
        files={"file": ("a.txt", "The cat is here.")},
        data={"source": "en", "target": "pt"},
    ),
}


@pytest.fixture
def broken(tmp_path: Path) -> str:
    """A folder that cannot be made, for root neither."""
    (tmp_path / "file").touch()
    return str(tmp_path / "file")


def assert_unavailable(response: httpx.Response, folder: str) -> None:
    assert response.status_code == 503, response.text
    assert 1 <= int(response.headers["retry-after"]) <= 60
    assert NOT_WRITABLE in response.text
    assert folder not in response.text


def test_only_requests_that_need_the_state_fail(
    serve: Serve, broken: str, caplog: pytest.LogCaptureFixture
) -> None:
    server = serve(state=broken, suggestions=True, files=True)
    for name, ask in COUNTING.items():
        assert ask(server).status_code == 200, name
    for ask in NEEDING.values():
        for _ in range(3):
            assert_unavailable(ask(server), broken)
    assert_error(NEEDING["POST /suggest"](server), UnavailableError, NOT_WRITABLE)
    until(lambda: server.core.state.fault)
    note = f"glossaries and suggestions cannot be stored: {NOT_WRITABLE}"
    for path in ("/health", "/health/ready"):
        assert server.get(path).json() == {"status": "ok", "note": note}
    assert server.get("/health/live").json() == {"status": "ok"}
    assert server.sample("regard_state_usable") == 0
    lines = [line for line in caplog.messages if "cannot be used" in line]
    assert len(lines) == 1
    assert broken in lines[0]


def test_translation_that_cannot_be_counted_fails(serve: Serve, broken: str) -> None:
    server = serve(state=broken, monthly_characters=100, files=True)
    for ask in (*COUNTING.values(), NEEDING["GET /v3/glossaries"]):
        assert_unavailable(ask(server), broken)
    assert server.get("/languages").status_code == 200
    until(lambda: server.core.state.fault == NOT_WRITABLE)
    for path in ("/health", "/health/ready"):
        assert_error(server.get(path), UnavailableError, "cannot count characters", NOT_WRITABLE)
        assert_unavailable(server.get(path), broken)
    assert server.get("/health/live").status_code == 200


def test_state_is_used_again_once_it_can_be_used(
    serve: Serve, broken: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    monkeypatch.setattr(database, "CHECK_SECONDS", 0.01)
    server = serve(state=broken, monthly_characters=20)
    until(lambda: server.get("/health/ready").status_code == 503)
    Path(broken).unlink()
    until(lambda: server.get("/health/ready").status_code == 200)
    assert server.get("/health/ready").json() == {"status": "ok"}
    assert server.sample("regard_state_usable") == 1
    assert server.translate("Hello, you.").status_code == 200
    assert server.translate("Hello, you.").status_code == 403  # the first one was counted
    assert any("can be used again" in line for line in caplog.messages)


def test_http_processes_share_the_new_file(serve_apart: ServeApart, tmp_path: Path) -> None:
    (tmp_path / "regard.sqlite3").write_bytes(b"\xff" * 10_000)
    server = serve_apart(state=str(tmp_path), monthly_characters=40)
    statuses = []
    for _ in range(8):  # the connections of a client reach both processes
        with httpx.Client(
            base_url=f"http://127.0.0.1:{server.port}", trust_env=False, timeout=LIMIT_SECONDS
        ) as client:
            statuses.append(client.post("/translate", json=translation("1234567890")).status_code)
    assert statuses == [200] * 4 + [403] * 4
    assert len([*tmp_path.glob("*.corrupt-*")]) == 1
