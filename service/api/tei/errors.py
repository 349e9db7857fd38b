"""Errors in the form of TEI (Text Embeddings Inference), with its statuses and `error_type`.

Source: TEI, docs/openapi.json at a28ad28f39e0633749a21b74af23617fa86a0d0c, `ErrorResponse`.
"""

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from service.api import error_texts
from service.errors import (
    KINDS,
    DeadlineExceededError,
    InternalError,
    InvalidKeyError,
    InvalidRequestError,
    MissingKeyError,
    NotFoundError,
    OverloadedError,
    RateLimitedError,
    RequestTooLargeError,
    ServiceError,
    UnavailableError,
    UnsupportedLanguageError,
)
from service.tasks.context import RequestContext

ErrorType = Literal["Unhealthy", "Backend", "Overloaded", "Validation", "Tokenizer"]

TEI_KINDS: dict[type[ServiceError], tuple[int, ErrorType]] = {
    InvalidRequestError: (422, "Validation"),
    UnsupportedLanguageError: (422, "Validation"),
    NotFoundError: (424, "Backend"),  # no such model, or no model for the route
    MissingKeyError: (401, "Validation"),
    InvalidKeyError: (401, "Validation"),
    RequestTooLargeError: (422, "Validation"),  # a body over the limit gets 413
    OverloadedError: (429, "Overloaded"),
    RateLimitedError: (429, "Overloaded"),
    UnavailableError: (503, "Unhealthy"),
    DeadlineExceededError: (504, "Backend"),
    InternalError: (424, "Backend"),
}
"""HTTP status and `error_type` of the errors that TEI's routes return.

Any other error has the status in `service.errors.KINDS`, and the `error_type` `Validation`.
"""


class TeiErrorBody(BaseModel):
    """The body of an error response of TEI's routes. TEI itself has no `request_id`."""

    model_config = ConfigDict(
        json_schema_extra={
            "example": {
                "error": "Invalid request: missing inputs parameter",
                "error_type": "Validation",
                "request_id": "5f2c6f0e8d7b4a53",
            }
        }
    )

    error: str = Field(description="The fault, with the value, the limit and the remedy.")
    error_type: ErrorType = Field(description="The kind of error, for programs.")
    request_id: str = Field(
        description="Id of the request, as in X-Request-Id. Give it when you report a problem."
    )


TEI_ERRORS: dict[int | str, dict[str, Any]] = {
    status: {"model": TeiErrorBody} for status in (401, 403, 413, 422, 424, 429, 503, 504)
}
"""Error responses of TEI's routes, for OpenAPI."""


def tei_shape(error: ServiceError, context: RequestContext) -> tuple[int, dict[str, Any]]:
    """Returns the status and the TeiErrorBody of an error.

    Inputs over a limit get 422, as in TEI. A body over the size limit gets 413, because no
    parameter is at fault.
    """
    status, error_type = TEI_KINDS.get(type(error), (KINDS[type(error)].status, "Validation"))
    if isinstance(error, RequestTooLargeError) and error.param is None:
        status = KINDS[RequestTooLargeError].status
    body = {
        "error": error_texts.text_of(error).joined,
        "error_type": error_type,
        "request_id": context.request_id,
    }
    return status, body
