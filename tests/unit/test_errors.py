"""Errors: their shapes for OpenAI's and DeepL's clients, DeepL's language codes, and the tree."""

import inspect
import json
import re

import pytest

from model import errors
from model.errors import ModelError
from service.api.deepl.errors import DEEPL_ERRORS, STATUSES, deepl_shape
from service.api.deepl.languages import source_code, source_codes, target_codes
from service.api.middleware import error_response
from service.api.openai.errors import OpenAIErrorBody, openai_shape
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
from service.tasks.context import RequestContext
from tests.unit.test_catalog import catalog

TOO_LONG = "context_length_exceeded"

ERRORS: list[tuple[ServiceError, str, str | None]] = [
    (InvalidRequestError("m"), "invalid_request_error", None),
    (UnsupportedLanguageError("m"), "invalid_request_error", None),
    (MissingKeyError("m"), "invalid_request_error", "invalid_api_key"),
    (InvalidKeyError("m"), "invalid_request_error", "invalid_api_key"),
    (UnauthorizedError("m"), "invalid_request_error", "invalid_api_key"),
    (ForbiddenError("m"), "invalid_request_error", "forbidden"),
    (QuotaExceededError("m"), "invalid_request_error", "forbidden"),
    (ConflictError("m"), "invalid_request_error", "conflict"),
    (NotFoundError("m"), "invalid_request_error", "unknown_url"),
    (NotFoundError("m", param="model"), "invalid_request_error", "model_not_found"),
    (MethodNotAllowedError("m"), "invalid_request_error", "method_not_allowed"),
    (RequestTooLargeError("m"), "invalid_request_error", "too_large"),
    (RequestTooLargeError("m", param="input"), "invalid_request_error", "too_large"),
    (RequestTooLargeError("m", param="input[2]"), "invalid_request_error", TOO_LONG),
    (MisdirectedError("m"), "invalid_request_error", "misdirected"),
    (OverloadedError("m", 7, "requests"), "requests", "rate_limit_exceeded"),
    (OverloadedError("m", 7, "tokens"), "tokens", "rate_limit_exceeded"),
    (RateLimitedError("m", 7, "requests"), "requests", "rate_limit_exceeded"),
    (RateLimitedError("m", 7, "characters"), "characters", "rate_limit_exceeded"),
    (UnavailableError("m", 1), "server_error", "unavailable"),
    (DeadlineExceededError("m"), "server_error", "deadline_exceeded"),
    (InternalError("m"), "server_error", "internal"),
]


def test_every_kind_of_error_is_here() -> None:
    assert {type(error) for error, *_ in ERRORS} == set(KINDS)


def test_message_has_text_and_details() -> None:
    error = InvalidRequestError("zz is not supported", details="use en or pt")
    _, body = openai_shape(error, RequestContext("id"))
    assert body["error"]["message"] == "zz is not supported; use en or pt"


@pytest.mark.parametrize(("error", "error_type", "code"), ERRORS)
def test_body_is_openais_with_status_and_headers_of_our_own_shape(
    error: ServiceError, error_type: str, code: str | None
) -> None:
    own = error_response(error, RequestContext("id"))
    openais = error_response(error, RequestContext("id"), openai_shape)
    assert own.status_code == KINDS[type(error)].status
    is_input = isinstance(error, RequestTooLargeError) and error.param is not None
    is_key = isinstance(error, MissingKeyError | InvalidKeyError)
    expected = 400 if is_input else 401 if is_key else own.status_code
    assert openais.status_code == expected
    assert openais.headers.get("retry-after") == own.headers.get("retry-after")
    param = error.param and error.param.removesuffix("[2]")
    expected_body = {"message": "m", "type": error_type, "param": param, "code": code}
    body = json.loads(bytes(openais.body))
    assert body == {"error": expected_body} == OpenAIErrorBody.model_validate(body).model_dump()
    assert json.loads(bytes(own.body))["error"] == "m"


def test_details_are_the_detail() -> None:
    error = InvalidRequestError("m", details="d")
    assert deepl_shape(error, RequestContext("id")) == (400, {"message": "m", "detail": "d"})
    error.param = "text"
    expected = {"message": "Value for 'text' not supported.", "detail": "m; d"}
    assert deepl_shape(error, RequestContext("id")) == (400, expected)


def test_documented_statuses_exist() -> None:
    statuses = {STATUSES.get(kind, KINDS[kind].status) for kind in KINDS}
    assert {*DEEPL_ERRORS} <= statuses


@pytest.mark.parametrize(
    ("models", "sources", "targets"),
    [
        (["en-pt", "pt-en"], ["EN", "PT"], ["EN-GB", "EN-US", "PT-BR", "PT-PT"]),
        (["en-de"], ["EN"], ["DE"]),
        (["en-pt-BR"], ["EN"], ["PT-BR"]),
        (["m: en pt pt-BR"], ["EN", "PT", "PT-BR"], ["EN-GB", "EN-US", "PT-BR", "PT-PT"]),
        (["m: de zh-Hans"], ["DE", "ZH"], ["DE", "ZH-HANS"]),
        (["m: de zh-Hans zh-Hant"], ["DE", "ZH", "ZH-HANT"], ["DE", "ZH-HANS", "ZH-HANT"]),
        ([], [], []),
    ],
)
def test_codes_are_those_of_deepl(
    models: list[str], sources: list[str], targets: list[str]
) -> None:
    found = catalog(*models)
    assert source_codes(found) == sources
    assert target_codes(found) == targets
    for code in (*sources, *targets):
        found.language(code)


def test_code_of_a_source_leads_back_to_it() -> None:
    found = catalog("m: de en pt pt-BR sr-Cyrl sr-Latn zh-Hans zh-Hant nb fil")
    for language in found.languages:
        assert found.language(source_code(language, found)) == language


def lines_of_tree() -> list[tuple[int, str]]:
    """(depth, name) for each line of the tree in the module's docstring."""
    lines = (inspect.getdoc(errors) or "").splitlines()
    found = [re.match(r"^([ │├└─]*)(\w+Error)\b", line) for line in lines]
    return [(len(match[1]) // 3, match[2]) for match in found if match]


def tree_of_classes(root: type[Exception], depth: int = 0) -> list[tuple[int, str]]:
    children = [line for c in root.__subclasses__() for line in tree_of_classes(c, depth + 1)]
    return [(depth, root.__name__), *children]


def test_the_docstring_draws_the_tree_that_is_there() -> None:
    assert lines_of_tree() == tree_of_classes(ModelError)
