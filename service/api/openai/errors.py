"""Errors in OpenAI's shape, for routes under /v1/: its clients read no other.

The status is that of the error in every shape. Clients try again by themselves at 429 and from 500
on, when Retry-After says.

Source: https://platform.openai.com/docs/guides/error-codes.
"""

from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from service.errors import KINDS, NotFoundError, OverloadedError, ServiceError

OPENAI_PREFIX = "/v1/"
"""Routes under this answer errors so."""


@dataclass(frozen=True, slots=True)
class OpenAIKind:
    """How a status is told.

    Attributes:
        error_type: The `type` of the body.
        code: Its `code`; None where OpenAI has none.
    """

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
    429: OpenAIKind("requests", "rate_limit_exceeded"),
    500: OpenAIKind("server_error", "internal"),
    503: OpenAIKind("server_error", "unavailable"),
    504: OpenAIKind("server_error", "deadline_exceeded"),
}


class OpenAIError(BaseModel):
    """What is inside."""

    message: str = Field(description="What happened, with the value, the limit and the way out.")
    type: str = Field(description="The kind of error, or which limit of admission was reached.")
    param: str | None = Field(description="The parameter at fault.")
    code: str | None = Field(description="The kind of error, for programs.")


class OpenAIErrorBody(BaseModel):
    """The body of every error under /v1/. Its id is in X-Request-Id."""

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


def openai_body(error: ServiceError) -> dict[str, Any]:
    """An error as an OpenAIErrorBody."""
    kind = openai_kind(error)
    return {
        "error": {
            "message": error.message,
            "type": kind.error_type,
            "param": error.param,
            "code": kind.code,
        }
    }


def openai_kind(error: ServiceError) -> OpenAIKind:
    """How an error is told: by its status, but for what OpenAI tells more exactly."""
    if isinstance(error, OverloadedError):
        return OpenAIKind(error.limit, "rate_limit_exceeded")
    if isinstance(error, NotFoundError) and error.param == "model":
        return OpenAIKind("invalid_request_error", "model_not_found")
    return OPENAI_KINDS[KINDS[type(error)].status]
