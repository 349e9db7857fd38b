"""The errors that a request can end with: their statuses, bodies and headers."""

from pathlib import Path
from typing import Any

import httpx
import pytest

from service.api.app import DIALECTS
from service.api.dialect import Dialect
from service.errors import (
    KINDS,
    ConflictError,
    DeadlineExceededError,
    ForbiddenError,
    InternalError,
    InvalidKeyError,
    InvalidRequestError,
    MethodNotAllowedError,
    MisdirectedError,
    MissingKeyError,
    NotFoundError,
    OverloadedError,
    QuotaExceededError,
    RateLimitedError,
    RequestTooLargeError,
    ServiceError,
    UnauthorizedError,
    UnavailableError,
    UnsupportedLanguageError,
)
from service.models.catalog import Catalog
from service.tasks.context import RequestContext
from tests.api.conftest import Serve
from tests.api.servers import Server, assert_error, translation
from tests.workers import LIMIT_SECONDS, Script

DEEPL = "/v2/translate"
DEEPL_STATUSES: dict[type[ServiceError], int] = {MissingKeyError: 403, QuotaExceededError: 456}
"""Statuses of DeepL's dialect that differ from KINDS."""

SETTINGS: dict[type[ServiceError], dict[str, Any]] = {
    InvalidRequestError: {},
    UnsupportedLanguageError: {},
    NotFoundError: {},
    MethodNotAllowedError: {},
    RequestTooLargeError: {"max_body_bytes": 50},
    MisdirectedError: {"allowed_hosts": ()},
    OverloadedError: {"max_pending_requests": 1},
    UnavailableError: {"is_ready": False},
    DeadlineExceededError: {"request_timeout_seconds": 0.05},
    InternalError: {},
    MissingKeyError: {"api_keys": "k"},
    InvalidKeyError: {"api_keys": "k"},
    QuotaExceededError: {"monthly_characters": 5},
}
"""The settings of a server on which `ask` gets each error."""


def ask(server: Server, path: str, kind: type[ServiceError]) -> httpx.Response:
    if kind in (NotFoundError, MethodNotAllowedError):
        return server.get(path if kind is MethodNotAllowedError else f"{path}s")
    text = "a" * 50 if kind is RequestTooLargeError else "Hello."
    target = "zz" if kind is UnsupportedLanguageError else "pt"
    body: dict[str, Any] = translation(text, target=target)
    if path == DEEPL:
        body = {"text": [text], "source_lang": "EN", "target_lang": target}
    if kind is InvalidRequestError:
        body = {}
    headers = {MisdirectedError: {"host": "a.b"}, InvalidKeyError: {"x-api-key": "x"}}
    return server.post(path, json=body, headers=headers.get(kind, {}))


ELSEWHERE = {UnauthorizedError, ForbiddenError, ConflictError, RateLimitedError}
"""The errors of test_loading.py and test_security_keys.py."""


def subclasses(kind: type[ServiceError]) -> set[type[ServiceError]]:
    return {kind}.union(*map(subclasses, kind.__subclasses__()))


def test_table_has_every_error() -> None:
    known = SETTINGS.keys() | ELSEWHERE
    assert subclasses(ServiceError) - {ServiceError} == KINDS.keys() == known


@pytest.mark.parametrize("kind", SETTINGS, ids=lambda kind: kind.__name__)
def test_error_has_the_shape_of_the_dialect(
    kind: type[ServiceError], serve: Serve, script: Script, tmp_path: Path
) -> None:
    if kind is UnavailableError:
        script.may_load.clear()
    server = serve(state=str(tmp_path), **SETTINGS[kind])
    if kind is InternalError:
        script.poison.add(server.token("Hello."))
    if kind in (OverloadedError, DeadlineExceededError):
        script.may_finish.clear()
    running = [server.begin_translate("Hello.")] if kind is OverloadedError else []
    server.until_admitted(len(running))
    own, deepl = (ask(server, path, kind) for path in ("/translate", DEEPL))
    script.may_finish.set()
    assert_error(own, kind)
    assert deepl.status_code == DEEPL_STATUSES.get(kind, KINDS[kind].status)
    assert deepl.json().keys() - {"detail"} == {"message"}
    assert deepl.headers["x-trace-id"] == deepl.headers["x-request-id"]
    assert ("retry-after" in deepl.headers) == (kind in (OverloadedError, UnavailableError))
    assert [each.result(LIMIT_SECONDS).status_code for each in running] == [200] * len(running)


def test_other_method_is_told_which_is_allowed(server: Server) -> None:
    for method, path, allowed in (
        ("GET", "/translate", "POST"),
        ("GET", "/detect", "POST"),
        ("POST", "/languages", "GET, HEAD"),
        ("POST", "/health", "GET, HEAD"),
        ("DELETE", "/metrics", "GET, HEAD"),
        ("DELETE", "/", "GET, POST, HEAD"),
        ("POST", "/static/app.js", "GET, HEAD"),
        ("HEAD", "/translate", "POST"),
        ("PUT", "/v1/models/en-pt", "GET, POST, DELETE, HEAD"),
    ):
        response = server.begin(method, path).result(LIMIT_SECONDS)
        if not path.startswith("/v1") and method != "HEAD":
            assert_error(response, MethodNotAllowedError, f"use {allowed}")
        assert (response.status_code, response.headers["allow"]) == (405, allowed)


COMPUTING = [(each, path) for each in DIALECTS for path in each.tasks]


@pytest.mark.parametrize(("dialect", "path"), COMPUTING, ids=lambda each: str(each)[:40])
def test_other_method_has_the_shape_of_the_path(
    server: Server, dialect: Dialect, path: str
) -> None:
    response = server.begin("PUT", path).result(LIMIT_SECONDS)
    status, body = dialect.error_shape(MethodNotAllowedError("no"), RequestContext("id"))
    assert (response.status_code, response.json().keys()) == (status, body.keys())


@pytest.mark.parametrize("path", [path for _, path in COMPUTING])
def test_path_may_have_a_slash_at_its_end(server: Server, path: str) -> None:
    with_slash, plain = (
        server.post(each, json={}, headers={"X-Request-Id": "a"}) for each in (f"{path}/", path)
    )
    assert (with_slash.status_code, with_slash.text) == (plain.status_code, plain.text)
    assert plain.status_code != 404


@pytest.mark.parametrize(
    ("method", "path", "kind", "message"),
    [
        ("POST", "/suggest", ForbiddenError, "Suggestions are disabled on this server."),
        ("POST", "/translate_file", ForbiddenError, "Files translation are disabled on this"),
        ("GET", "/download_file/x", InvalidRequestError, "Files translation are disabled on"),
    ],
)
def test_disabled_route_answers_like_libretranslate(
    server: Server, method: str, path: str, kind: type[ServiceError], message: str
) -> None:
    response = server.begin(method, path).result(LIMIT_SECONDS)
    assert_error(response, kind, message)


def test_pair_without_a_model_is_refused(serve: Serve) -> None:
    server = serve()
    services = server.services
    services.replace_catalog(Catalog([services.catalog.served["en-pt"]]))
    response = server.translate("Olá.", source="pt", target="en")
    message = (
        "English (en) is not available as a target language from Portuguese (pt); available: pt"
    )
    assert_error(response, UnsupportedLanguageError, message)


def test_header_over_the_limit_is_named(server: Server) -> None:
    response = server.get("/languages", headers={"accept-language": "en," * 1000})
    assert_error(response, InvalidRequestError, "header accept-language", "1024")


@pytest.mark.parametrize("given_id", ["abc", "A-b.c_9", "x" * 64])
def test_plain_request_id_is_kept(server: Server, given_id: str) -> None:
    response = server.post("/translate", json={}, headers={"X-Request-Id": given_id})
    assert response.json()["request_id"] == given_id
    assert response.headers["x-request-id"] == given_id


@pytest.mark.parametrize("given_id", ["", "x" * 65, "a b", "é", "a\tb", '"'])
def test_other_request_id_is_replaced(server: Server, given_id: str) -> None:
    headers = [(b"x-request-id", given_id.encode("latin-1"))]
    ids = {server.get("/health", headers=headers).headers["x-request-id"] for _ in range(2)}
    assert len(ids) == 2
    assert all(len(made) == 16 for made in ids)
