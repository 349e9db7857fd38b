"""Responses: JSON by orjson, and the body of every error: OpenAI's under /v1/, else our own."""

from typing import Any

import orjson
from fastapi import Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import Response

from service.api.libretranslate.schemas import ErrorBody
from service.api.openai.errors import OpenAIErrorBody, openai_body
from service.errors import (
    KINDS,
    InvalidRequestError,
    MethodNotAllowedError,
    NotFoundError,
    ServiceError,
    outcome,
)
from service.tasks.context import RequestContext

ERRORS: dict[int | str, dict[str, Any]] = {
    status: {"model": ErrorBody} for status in (400, 413, 429, 500, 503, 504)
}
"""What most routes may answer, for OpenAPI."""

MISSING: dict[int | str, dict[str, Any]] = {404: {"model": ErrorBody}}
"""There is no such model."""

OPENAI_ERRORS: dict[int | str, dict[str, Any]] = {
    status: {"model": OpenAIErrorBody} for status in (400, 404, 413, 429, 500, 503, 504)
}
"""What routes in OpenAI's shape may answer."""


ADMIN_ERRORS: dict[int | str, dict[str, Any]] = {
    status: {"model": OpenAIErrorBody} for status in (400, 401, 403, 404, 409, "4XX", 500, 503)
}
"""What routes that change the server may answer."""


class JSONReply(Response):
    """A JSON response; lone surrogates cannot occur in what we send."""

    media_type = "application/json"

    def render(self, content: Any) -> bytes:
        """The body."""
        return orjson.dumps(content)


def error_response(error: ServiceError, context: RequestContext) -> Response:
    """The response for an error, which also becomes the request's outcome."""
    kind = KINDS[type(error)]
    context.outcome = outcome(error)
    body = openai_body(error) if context.is_openai else own_body(error, context)
    headers = {}
    if error.retry_after_seconds is not None:
        headers["Retry-After"] = str(error.retry_after_seconds)
    if kind.status == 401:
        headers["WWW-Authenticate"] = "Bearer"
    return JSONReply(body, kind.status, headers)


def own_body(error: ServiceError, context: RequestContext) -> dict[str, Any]:
    """An error as an ErrorBody."""
    return {
        "error": error.message,
        "error_type": KINDS[type(error)].error_type,
        "request_id": context.request_id,
    }


async def handle_service_error(request: Request, error: Exception) -> Response:
    """For what the routes raise."""
    assert isinstance(error, ServiceError)
    return error_response(error, request.state.context)


async def handle_http_exception(request: Request, error: Exception) -> Response:
    """For what the framework raises: no such route, or not by this method."""
    assert isinstance(error, HTTPException)
    context: RequestContext = request.state.context
    if error.status_code == 405:
        allowed = (error.headers or {}).get("Allow", "another method")
        wrong = MethodNotAllowedError(f"{request.method} is not allowed here; use {allowed}")
        response = error_response(wrong, context)
        response.headers.update(error.headers or {})
        return response
    if error.status_code == 404:
        missing = NotFoundError("there is no such address; GET /docs lists what there is")
        return error_response(missing, context)
    return error_response(InvalidRequestError(str(error.detail)), context)


async def handle_validation_error(request: Request, error: Exception) -> Response:
    """For headers that the framework itself has checked."""
    assert isinstance(error, RequestValidationError)
    fault = error.errors()[0]
    place, name = fault["loc"][0], fault["loc"][-1]
    message = f"Invalid request: {place} {name}: {fault['msg']}"
    return error_response(InvalidRequestError(message), request.state.context)
