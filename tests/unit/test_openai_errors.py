"""The shape of OpenAI's errors: body, type, code and status of every error."""

import json
from typing import Any

import pytest

from service.api.middleware import error_response
from service.api.openai.errors import CODES, OpenAIErrorBody, openai_shape
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
    assert {kind.status for kind in KINDS.values()} == {400, *CODES}


@pytest.mark.parametrize(("error", "error_type", "code"), ERRORS)
def test_body_is_openais(error: ServiceError, error_type: str, code: str | None) -> None:
    _, body = openai_shape(error, RequestContext("id"))
    assert OpenAIErrorBody.model_validate(body).model_dump() == body
    param = error.param and error.param.removesuffix("[2]")
    expected = {"message": "m", "type": error_type, "param": param, "code": code}
    assert body == {"error": expected}


def test_message_has_text_and_details() -> None:
    error = InvalidRequestError("zz is not supported", details="use en or pt")
    _, body = openai_shape(error, RequestContext("id"))
    assert body["error"]["message"] == "zz is not supported; use en or pt"


@pytest.mark.parametrize(("error", "error_type", "code"), ERRORS)
def test_status_and_headers_are_those_of_our_own_shape(
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
    inside: dict[str, Any] = json.loads(bytes(openais.body))["error"]
    assert (inside["type"], inside["code"]) == (error_type, code)
    assert json.loads(bytes(own.body))["error"] == "m"
