"""Error responses, and their default body.

A dialect whose error body or status differs from the default has its own `ErrorShape`.
`service.errors` has the table of all errors.
"""

from collections.abc import Callable
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from service.api import error_texts
from service.errors import KINDS, ServiceError
from service.tasks.context import RequestContext

ErrorShape = Callable[[ServiceError, RequestContext], tuple[int, dict[str, Any]]]
"""A function that takes an error and its request, and returns an HTTP status and a body."""


class ErrorBody(BaseModel):
    """The body of every error, except in dialects with an error body of their own."""

    error: str = Field(
        description="The fault, in LibreTranslate's words if LibreTranslate has this error."
    )
    error_type: str = Field(description="The kind of error, for programs.")
    request_id: str = Field(
        description="Id of the request, as in X-Request-Id. Give this id when you report a problem."
    )
    details: str | None = Field(
        None,
        description="The value, the limit and the remedy. Absent if `error` has them already.",
    )

    model_config = ConfigDict(
        json_schema_extra={
            "example": {
                "error": "zz is not supported",
                "error_type": "unsupported_language",
                "request_id": "5f2c6f0e8d7b4a53",
                "details": "supported: en, pt",
            }
        }
    )


ERRORS: dict[int | str, dict[str, Any]] = {
    status: {"model": ErrorBody} for status in (400, 403, 413, 429, 500, 503, 504)
}
"""Error responses of most routes, for OpenAPI."""

MISSING: dict[int | str, dict[str, Any]] = {404: {"model": ErrorBody}}
"""Response to a request that names an unknown model or glossary, for OpenAPI."""


def own_shape(error: ServiceError, context: RequestContext) -> tuple[int, dict[str, Any]]:
    kind = KINDS[type(error)]
    text, details = error_texts.text_of(error)
    body = {"error": text, "error_type": kind.error_type, "request_id": context.request_id}
    if details:
        body["details"] = details
    return kind.status, body
