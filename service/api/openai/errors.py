"""Errors in OpenAI's shape.

OpenAI's clients read no other shape of errors. They repeat a request by themselves after some
errors, such as 429 and 5xx. They first wait for the time that Retry-After gives.

Source: https://platform.openai.com/docs/guides/error-codes.
"""

from typing import Any

from pydantic import BaseModel, Field

from service.api.errors import KEYS_401, Statuses, responses_of, status_of
from service.errors import (
    KINDS,
    NotFoundError,
    OverloadedError,
    RateLimitedError,
    RequestTooLargeError,
    ServiceError,
)
from service.tasks.context import RequestContext
from service.tasks.parameters import example

CODES: dict[int, str | None] = {
    400: None,
    401: "invalid_api_key",
    403: "forbidden",
    404: "unknown_url",
    429: "rate_limit_exceeded",
}
"""The `code` of an error by its status; with any other status, it is the `error_type` of KINDS."""

STATUSES: Statuses = {**KEYS_401, RequestTooLargeError: 400}
"""Statuses in the dialects of OpenAI, Cohere and Ollama that differ from `KINDS`."""


class OpenAIError(BaseModel):
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

    model_config = example(
        error={
            "message": "there is no model gpt-4 that embeds; there are all-MiniLM-L6-v2",
            "type": "invalid_request_error",
            "param": "model",
            "code": "model_not_found",
        }
    )

    error: OpenAIError


OPENAI_ERRORS = responses_of(OpenAIErrorBody, 400, 401, 403, 404, 413, 429, 500, 503, 504)


def openai_shape(error: ServiceError, _context: RequestContext) -> tuple[int, dict[str, Any]]:
    status = status_of(error, STATUSES)
    error_type = "server_error" if status >= 500 else "invalid_request_error"
    code = CODES.get(status, KINDS[type(error)].error_type)
    if isinstance(error, OverloadedError):
        error_type = error.limit
    elif isinstance(error, RateLimitedError):
        error_type = error.unit
    elif isinstance(error, NotFoundError) and error.param == "model":
        code = "model_not_found"
    elif isinstance(error, RequestTooLargeError):
        # `input[3]` is one input, which is too long for the model.
        is_one = (error.param or "").endswith("]")
        code = "context_length_exceeded" if is_one else "too_large"
    inside = {
        "message": error.joined,
        "type": error_type,
        "param": error.param and error.param.partition("[")[0],
        "code": code,
    }
    return status, {"error": inside}
