"""Every way in which a request ends without a result: status, body, headers, and nothing told."""

from collections.abc import Callable
from tempfile import TemporaryDirectory

import httpx
import pytest

from service.api.app import DIALECTS
from service.api.dialect import Dialect
from service.api.libretranslate.schemas import TranslateRequest
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
DEEPL_STATUSES: dict[type[ServiceError], int] = {
    MissingKeyError: 403,
    NotFoundError: 404,
    MethodNotAllowedError: 405,
    RequestTooLargeError: 413,
    OverloadedError: 429,
    QuotaExceededError: 456,
    InternalError: 500,
    UnavailableError: 503,
    DeadlineExceededError: 504,
}


def ask(server: Server, path: str, text: str = "Hello.") -> httpx.Response:
    deepl = {"text": [text], "source_lang": "EN", "target_lang": "PT-BR"}
    return server.post(path, json=deepl if path == DEEPL else translation(text))


def overload(serve: Serve, script: Script, path: str) -> httpx.Response:
    server = serve(max_pending_requests=1)
    script.may_finish.clear()
    first = server.begin_translate("Hello.")
    server.until_admitted(1)
    response = ask(server, path)
    script.may_finish.set()
    first.result(LIMIT_SECONDS)
    return response


def ask_too_early(serve: Serve, script: Script, path: str) -> httpx.Response:
    script.may_load.clear()
    return ask(serve(is_ready=False), path)


def wait_too_long(serve: Serve, script: Script, path: str) -> httpx.Response:
    script.may_finish.clear()
    return ask(serve(request_timeout_seconds=0.05), path)


def break_the_engine(serve: Serve, script: Script, path: str) -> httpx.Response:
    server = serve()
    script.poison.add(server.token("Hi"))
    return ask(server, path, "Hi")


def exceed_the_quota(serve: Serve, _: Script, path: str) -> httpx.Response:
    with TemporaryDirectory() as folder:
        return ask(serve(monthly_characters=5, state=folder), path)


SCENES: dict[type[ServiceError], Callable[[Serve, Script, str], httpx.Response]] = {
    InvalidRequestError: lambda serve, _, path: serve().post(path, json={}),
    UnsupportedLanguageError: lambda serve, *_: serve().translate("Hello.", target="zz"),
    NotFoundError: lambda serve, _, path: serve().get(f"{path}s"),
    MethodNotAllowedError: lambda serve, _, path: serve().get(path),
    RequestTooLargeError: lambda serve, _, path: ask(serve(max_body_bytes=50), path, "a" * 50),
    MisdirectedError: lambda serve, *_: serve(allowed_hosts=()).get(
        "/languages", headers={"host": "a.b"}
    ),
    OverloadedError: overload,
    UnavailableError: ask_too_early,
    DeadlineExceededError: wait_too_long,
    InternalError: break_the_engine,
    MissingKeyError: lambda serve, _, path: ask(serve(api_keys="k"), path),
    QuotaExceededError: exceed_the_quota,
    InvalidKeyError: lambda serve, *_: serve(api_keys="k").translate("Hello.", api_key="x"),
}


ELSEWHERE = {UnauthorizedError, ForbiddenError, ConflictError, RateLimitedError}
"""Told under /v1/ alone, and so in OpenAI's shape: test_loading.py; or test_security_keys.py."""


def subclasses(kind: type[ServiceError]) -> set[type[ServiceError]]:
    return {kind}.union(*map(subclasses, kind.__subclasses__()))


def test_table_has_every_error() -> None:
    known = SCENES.keys() | ELSEWHERE
    assert subclasses(ServiceError) - {ServiceError} == KINDS.keys() == known


@pytest.mark.parametrize("kind", SCENES, ids=lambda kind: kind.__name__)
def test_error_is_told_in_the_one_shape(
    kind: type[ServiceError], serve: Serve, script: Script
) -> None:
    assert_error(SCENES[kind](serve, script, "/translate"), kind)


@pytest.mark.parametrize("kind", DEEPL_STATUSES, ids=lambda kind: kind.__name__)
def test_error_has_deepls_shape_at_its_routes(
    kind: type[ServiceError], serve: Serve, script: Script
) -> None:
    response = SCENES[kind](serve, script, DEEPL)
    assert response.status_code == DEEPL_STATUSES[kind]
    assert response.json().keys() - {"detail"} == {"message"}
    assert response.headers["x-trace-id"] == response.headers["x-request-id"]
    assert ("retry-after" in response.headers) == (kind in (OverloadedError, UnavailableError))


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


@pytest.mark.parametrize("name", [*TranslateRequest.model_fields][3:])
def test_null_is_an_absent_parameter(server: Server, name: str) -> None:
    plain = server.translate("Hello.").json()
    assert server.translate("Hello.", **{name: None}).json() == plain


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
