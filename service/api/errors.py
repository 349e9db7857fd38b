"""Error responses, and their default body.

A dialect whose error body or status differs from the default has its own `ErrorShape`.
`service.errors` has the table of all errors.
"""

from collections.abc import Callable, Mapping
from typing import Any

from pydantic import BaseModel, Field

from service.errors import (
    KINDS,
    InvalidKeyError,
    MissingKeyError,
    RequestTooLargeError,
    ServiceError,
)
from service.tasks.context import RequestContext
from service.tasks.parameters import example

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
        None, description="The value, the limit and the remedy. Absent if `error` has them already."
    )

    model_config = example(
        error="zz is not supported",
        error_type="unsupported_language",
        request_id="5f2c6f0e8d7b4a53",
        details="supported: en, pt",
    )


Responses = dict[int | str, dict[str, Any]]
"""Responses of a route besides the usual one, for OpenAPI, by status."""


def responses_of(body: type[BaseModel], *statuses: int | str) -> Responses:
    return {status: {"model": body} for status in statuses}


ERRORS = responses_of(ErrorBody, 400, 403, 413, 429, 500, 503, 504)
"""Error responses of most routes."""

MISSING = responses_of(ErrorBody, 404)
"""Response to a request that names an unknown model or glossary."""


Statuses = Mapping[type[ServiceError], int]

KEYS_401: Statuses = {MissingKeyError: 401, InvalidKeyError: 401}
"""The status 401 for a missing or wrong key. Most clients expect it; `KINDS` has 400 and 403."""


def status_of(error: ServiceError, statuses: Statuses) -> int:
    """Returns the status of an error in a dialect whose `statuses` replace those of `KINDS`.

    A body over the size limit always gets 413, because no parameter is at fault.
    """
    status = KINDS[type(error)].status
    is_body = isinstance(error, RequestTooLargeError) and error.param is None
    return status if is_body else statuses.get(type(error), status)


def own_shape(error: ServiceError, context: RequestContext) -> tuple[int, dict[str, Any]]:
    kind = KINDS[type(error)]
    body = {"error": error.message, "error_type": kind.error_type, "request_id": context.request_id}
    if error.details:
        body["details"] = error.details
    return kind.status, body
