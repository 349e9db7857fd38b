"""Errors in DeepL's shape, for the routes under /v2/ and /v3/.

DeepL's clients read the status and `message`, and `detail` if it is present. They repeat a
request by themselves after 429 and after every status of 500 or more.

Source: https://developers.deepl.com/docs/best-practices/error-handling.
"""

from typing import Any

from pydantic import BaseModel, Field

from service.api import error_texts
from service.api.errors import responses_of, status_of
from service.errors import (
    KINDS,
    InvalidKeyError,
    MissingKeyError,
    QuotaExceededError,
    RateLimitedError,
    ServiceError,
)
from service.tasks.context import RequestContext
from service.tasks.parameters import example

TRACE_HEADER = "X-Trace-ID"  # header in which DeepL's clients look for the id of a request


class DeepLErrorBody(BaseModel):
    """The body of every error under /v2/ and /v3/. The id of the request is in X-Trace-ID."""

    model_config = example(
        message="Value for 'target_lang' not supported.",
        detail="zz is not supported; supported: en, pt",
    )

    message: str = Field(description="The fault, in DeepL's words if DeepL has a text for it.")
    detail: str | None = Field(
        None, description="The value, the limit and the remedy, if `message` does not name them."
    )


DEEPL_ERRORS = responses_of(DeepLErrorBody, 400, 403, 413, 429, 456, 500, 503, 504)

WRONG_KEY = "Authorization failure, check auth_key"  # text for a missing key and for a wrong key

GLOSSARY_NEEDS_SOURCE = "Use of a glossary requires the 'source_lang' parameter to be specified"
"""Text for a request that has a glossary but no source language."""

KEY_HEADER = "send a key in the header `Authorization: DeepL-Auth-Key …`"

STATUSES: dict[type[ServiceError], int] = {MissingKeyError: 403, QuotaExceededError: 456}
"""Statuses that DeepL's clients expect in place of the statuses in `service.errors.KINDS`."""


def deepl_shape(error: ServiceError, _context: RequestContext) -> tuple[int, dict[str, Any]]:
    message, details = deepl_text(error)
    body = {"message": message, "detail": details} if details else {"message": message}
    return status_of(error, STATUSES), body


def deepl_text(error: ServiceError) -> tuple[str, str]:
    """Returns the members `message` and `detail` of an error."""
    if isinstance(error, MissingKeyError):
        return WRONG_KEY, KEY_HEADER
    if isinstance(error, InvalidKeyError):
        return WRONG_KEY, error.joined
    if isinstance(error, QuotaExceededError):
        return "Quota exceeded", error.joined
    if isinstance(error, RateLimitedError):
        return "Too many requests", error.details
    if error.param is None or KINDS[type(error)].status != 400:
        return error.message, error.details
    if error.message == error_texts.missing(error.param).message:
        return f"Parameter '{error.param}' not specified", error.details
    return f"Value for '{error.param}' not supported.", error.joined
