"""Errors in OpenAI's shape, for the routes under /v1/ and for /embeddings.

OpenAI's clients read no other shape. They repeat a request by themselves after some errors, such as
429 and 5xx. They first wait for the time that Retry-After gives.

Source: https://platform.openai.com/docs/guides/error-codes.
"""

from typing import Any, NamedTuple

from pydantic import BaseModel, ConfigDict, Field

from service.api import error_texts
from service.errors import (
    KINDS,
    InvalidKeyError,
    MissingKeyError,
    NotFoundError,
    OverloadedError,
    RateLimitedError,
    RequestTooLargeError,
    ServiceError,
)
from service.tasks.context import RequestContext


class OpenAIKind(NamedTuple):
    """The `type` and the `code` of a kind of error; OpenAI has no code for some kinds."""

    error_type: str
    code: str | None


OPENAI_KINDS: dict[int, OpenAIKind] = {
    400: OpenAIKind("invalid_request_error", None),
    401: OpenAIKind("invalid_request_error", "invalid_api_key"),
    403: OpenAIKind("invalid_request_error", "forbidden"),
    404: OpenAIKind("invalid_request_error", "unknown_url"),
    405: OpenAIKind("invalid_request_error", "method_not_allowed"),
    409: OpenAIKind("invalid_request_error", "conflict"),
    413: OpenAIKind("invalid_request_error", "too_large"),
    421: OpenAIKind("invalid_request_error", "misdirected"),
    429: OpenAIKind("requests", "rate_limit_exceeded"),
    500: OpenAIKind("server_error", "internal"),
    503: OpenAIKind("server_error", "unavailable"),
    504: OpenAIKind("server_error", "deadline_exceeded"),
}


class OpenAIError(BaseModel):
    """The content of an error body."""

    message: str = Field(description="The fault, with the value, the limit and the remedy.")
    type: str = Field(
        description="The kind of error. With status 429, the limit that was reached: `requests`, "
        "`tokens`, `characters`, `deadline` or `bytes`."
    )
    param: str | None = Field(description="The parameter at fault.")
    code: str | None = Field(description="A more exact kind of error than `type`, or null.")


class OpenAIErrorBody(BaseModel):
    """The body of errors of the routes under /v1/ and of POST /embeddings.

    X-Request-Id has the request's id.
    """

    model_config = ConfigDict(
        json_schema_extra={
            "example": {
                "error": {
                    "message": "Invalid request: missing input parameter",
                    "type": "invalid_request_error",
                    "param": "input",
                    "code": None,
                }
            }
        }
    )

    error: OpenAIError


OPENAI_ERRORS: dict[int | str, dict[str, Any]] = {
    status: {"model": OpenAIErrorBody} for status in (400, 401, 403, 404, 413, 429, 500, 503, 504)
}
"""Error responses of most routes in OpenAI's shape, for OpenAPI."""


def openai_shape(error: ServiceError, _context: RequestContext) -> tuple[int, dict[str, Any]]:
    kind = openai_kind(error)
    inside = {
        "message": error_texts.text_of(error).joined,
        "type": kind.error_type,
        "param": error.param and error.param.partition("[")[0],
        "code": kind.code,
    }
    return openai_status(error), {"error": inside}


def openai_status(error: ServiceError) -> int:
    """Returns the HTTP status of an error.

    An input that is too long gets 400, as at OpenAI, because OpenAI's clients expect this status.
    A body over the size limit keeps 413, because no parameter is at fault. A missing or wrong key
    gets 401.
    """
    if isinstance(error, MissingKeyError | InvalidKeyError):
        return 401
    if isinstance(error, RequestTooLargeError) and error.param is not None:
        return 400
    return KINDS[type(error)].status


def openai_kind(error: ServiceError) -> OpenAIKind:
    if isinstance(error, OverloadedError):
        return OpenAIKind(error.limit, "rate_limit_exceeded")
    if isinstance(error, RateLimitedError):
        return OpenAIKind(error.unit, "rate_limit_exceeded")
    if isinstance(error, NotFoundError) and error.param == "model":
        return OpenAIKind("invalid_request_error", "model_not_found")
    if isinstance(error, MissingKeyError | InvalidKeyError):
        return OPENAI_KINDS[401]
    if isinstance(error, RequestTooLargeError) and (error.param or "").endswith("]"):
        # `param` names one input, such as `input[3]`. This input is too long for the model.
        return OpenAIKind("invalid_request_error", "context_length_exceeded")
    return OPENAI_KINDS[KINDS[type(error)].status]
