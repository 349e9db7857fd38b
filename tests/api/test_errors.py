"""Every way in which a request ends without a result: status, body, headers, and nothing told."""

from collections.abc import Callable
from tempfile import TemporaryDirectory
from typing import Any

import httpx
import pytest

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
from tests.api.conftest import Serve
from tests.api.servers import Server, assert_error, translation
from tests.workers import LIMIT_SECONDS, Script

NO_NUMBER = " parameter is not a number"


def overload(serve: Serve, script: Script) -> httpx.Response:
    server = serve(max_pending_requests=1)
    script.may_finish.clear()
    first = server.begin_translate("Hello.")
    server.until_admitted(1)
    response = server.translate("Hello.")
    script.may_finish.set()
    first.result(LIMIT_SECONDS)
    return response


def ask_too_early(serve: Serve, script: Script) -> httpx.Response:
    script.may_load.clear()
    return serve(is_ready=False).translate("Hello.")


def wait_too_long(serve: Serve, script: Script) -> httpx.Response:
    script.may_finish.clear()
    return serve(request_timeout_seconds=0.05).translate("Hello.")


def break_the_engine(serve: Serve, script: Script) -> httpx.Response:
    server = serve()
    script.poison.add(server.token("Hi"))
    return server.translate("Hi")


def exceed_the_quota(serve: Serve, _: Script) -> httpx.Response:
    with TemporaryDirectory() as folder:
        return serve(monthly_characters=5, state=folder).translate("Hello.")


SCENES: dict[type[ServiceError], Callable[[Serve, Script], httpx.Response]] = {
    InvalidRequestError: lambda serve, _: serve().post("/translate", json={}),
    UnsupportedLanguageError: lambda serve, _: serve().translate("Hello.", target="zz"),
    NotFoundError: lambda serve, _: serve().get("/translation"),
    MethodNotAllowedError: lambda serve, _: serve().get("/translate"),
    RequestTooLargeError: lambda serve, _: serve(max_body_bytes=50).translate("a" * 50),
    MisdirectedError: lambda serve, _: serve(allowed_hosts=()).get(
        "/languages", headers={"host": "a.b"}
    ),
    OverloadedError: overload,
    UnavailableError: ask_too_early,
    DeadlineExceededError: wait_too_long,
    InternalError: break_the_engine,
    MissingKeyError: lambda serve, _: serve(api_keys="k").translate("Hello."),
    QuotaExceededError: exceed_the_quota,
    InvalidKeyError: lambda serve, _: serve(api_keys="k").translate("Hello.", api_key="x"),
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
    assert_error(SCENES[kind](serve, script), kind)


@pytest.mark.parametrize(
    ("body", "kind", "message"),
    [
        ({}, InvalidRequestError, "missing q parameter"),
        ({"q": "", "source": "en", "target": "pt"}, InvalidRequestError, "missing q parameter"),
        ({"q": [], "source": "en", "target": "pt"}, InvalidRequestError, "missing q parameter"),
        ({"q": "a", "target": "pt"}, InvalidRequestError, "missing source parameter"),
        ({"q": "a", "source": "en"}, InvalidRequestError, "missing target parameter"),
        (translation("a", source=""), InvalidRequestError, "missing source parameter"),
        (translation("a", target=" "), InvalidRequestError, "missing target parameter"),
        (translation("a", source=None), InvalidRequestError, "source parameter"),
        ({**translation("a"), "q": 7}, InvalidRequestError, "q parameter"),
        ({**translation("a"), "q": None}, InvalidRequestError, "q parameter"),
        ({**translation("a"), "q": {"a": 1}}, InvalidRequestError, "q parameter"),
        ({**translation("a"), "q": ["a", None]}, InvalidRequestError, "q[1] parameter"),
        ({**translation("a"), "q": ["a", "b", ["c"]]}, InvalidRequestError, "q[2] parameter"),
        (translation("a", source="zz"), UnsupportedLanguageError, "zz is not supported"),
        (translation("a", target="auto"), UnsupportedLanguageError, "auto is not supported"),
        (translation("a", target="x" * 500), UnsupportedLanguageError, "x" * 40 + " is not"),
        (translation("a", format="pdf"), InvalidRequestError, "pdf format is not supported"),
        (translation("a", alternatives="many"), InvalidRequestError, "alternatives" + NO_NUMBER),
        (translation("a", alternatives=1.5), InvalidRequestError, "alternatives" + NO_NUMBER),
        (translation("a", alternatives=-1), InvalidRequestError, "alternatives parameter"),
        (translation("a", alternatives=8), InvalidRequestError, "alternatives parameter must be"),
        (translation("a", alternatives=10**30), InvalidRequestError, "alternatives parameter"),
        (translation("a", beam_size=0), InvalidRequestError, "beam_size parameter"),
        (translation("a", beam_size=9), InvalidRequestError, "must be <= 8; it is 9; ask"),
        (translation("a", beam_size="wide"), InvalidRequestError, "beam_size" + NO_NUMBER),
        (translation("a", split_sentences="x"), InvalidRequestError, "split_sentences parameter"),
        (translation("a", return_scores=7), InvalidRequestError, "return_scores parameter"),
        (translation(["a"] * 2049), InvalidRequestError, "(2049) exceeds text limit (2048)"),
    ],
)  # fmt: skip
def test_wrong_parameter_is_named(
    steady_server: Server, body: dict[str, Any], kind: type[ServiceError], message: str
) -> None:
    response = steady_server.post("/translate", json=body)
    assert_error(response, kind, message)


def test_other_method_is_told_which_is_allowed(steady_server: Server) -> None:
    for method, path, allowed in (
        ("GET", "/translate", "POST"),
        ("GET", "/detect", "POST"),
        ("POST", "/languages", "GET, HEAD"),
        ("POST", "/health", "GET, HEAD"),
        ("DELETE", "/metrics", "GET, HEAD"),
        ("DELETE", "/", "GET, POST, HEAD"),
        ("POST", "/static/app.js", "GET, HEAD"),
        ("HEAD", "/translate", "POST"),
    ):
        response = steady_server.begin(method, path).result(LIMIT_SECONDS)
        if method != "HEAD":
            assert_error(response, MethodNotAllowedError, f"use {allowed}")
        assert (response.status_code, response.headers["allow"]) == (405, allowed)


def test_allow_names_the_methods_of_all_routes_of_a_path(steady_server: Server) -> None:
    """The framework names those of one route alone."""
    response = steady_server.begin("PUT", "/v1/models/en-pt").result(LIMIT_SECONDS)
    assert response.status_code == 405
    assert response.headers["allow"] == "GET, POST, DELETE, HEAD"


@pytest.mark.parametrize(
    ("method", "path", "kind", "message"),
    [
        ("POST", "/suggest", ForbiddenError, "Suggestions are disabled on this server."),
        ("POST", "/translate_file", ForbiddenError, "Files translation are disabled on this"),
        ("GET", "/download_file/x", InvalidRequestError, "Files translation are disabled on"),
    ],
)
def test_disabled_route_answers_like_libretranslate(
    steady_server: Server, method: str, path: str, kind: type[ServiceError], message: str
) -> None:
    response = steady_server.begin(method, path).result(LIMIT_SECONDS)
    assert_error(response, kind, message)


@pytest.mark.parametrize("name", [*TranslateRequest.model_fields][3:])
def test_null_is_an_absent_parameter(steady_server: Server, name: str) -> None:
    plain = steady_server.translate("Hello.").json()
    assert steady_server.translate("Hello.", **{name: None}).json() == plain


def test_empty_format_is_text(steady_server: Server) -> None:
    response = steady_server.translate("Hello.", format="")
    assert response.status_code == 200


def test_pair_without_a_model_is_refused(serve: Serve) -> None:
    server = serve()
    del server.services.catalog.pairs["pt", "en"]
    response = server.translate("Olá.", source="pt", target="en")
    message = (
        "English (en) is not available as a target language from Portuguese (pt); available: pt"
    )
    assert_error(response, UnsupportedLanguageError, message)


def test_header_over_the_limit_is_named(steady_server: Server) -> None:
    response = steady_server.get("/languages", headers={"accept-language": "en," * 1000})
    assert_error(response, InvalidRequestError, "header accept-language", "1024")


@pytest.mark.parametrize("given_id", ["abc", "A-b.c_9", "x" * 64])
def test_plain_request_id_is_kept(steady_server: Server, given_id: str) -> None:
    response = steady_server.post("/translate", json={}, headers={"X-Request-Id": given_id})
    assert response.json()["request_id"] == given_id
    assert response.headers["x-request-id"] == given_id


@pytest.mark.parametrize("given_id", ["", "x" * 65, "a b", "é", "a\tb", '"'])
def test_other_request_id_is_replaced(steady_server: Server, given_id: str) -> None:
    headers = [(b"x-request-id", given_id.encode("latin-1"))]
    ids = {steady_server.get("/health", headers=headers).headers["x-request-id"] for _ in range(2)}
    assert len(ids) == 2
    assert all(len(made) == 16 for made in ids)
