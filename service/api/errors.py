"""Error responses: the default body, and handlers for all errors of the routes and of FastAPI.

The routes of one API, such as LibreTranslate's or OpenAI's, are a dialect. A dialect whose error
body or status differs from the default has its own `ErrorShape`. `service.errors` has the table of
all errors.
"""

from collections.abc import Callable
from typing import Any

from fastapi import Request
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, ConfigDict, Field
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.routing import Match

from service.api import error_texts
from service.api.responses import JSONResponse
from service.errors import (
    KINDS,
    InvalidRequestError,
    MethodNotAllowedError,
    NotFoundError,
    ServiceError,
    outcome,
)
from service.tasks.context import RequestContext

ErrorShape = Callable[[ServiceError, RequestContext], tuple[int, dict[str, Any]]]
"""A function that takes an error and its request, and returns an HTTP status and a body."""

METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE")


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
    """Returns the status and the ErrorBody of an error."""
    kind = KINDS[type(error)]
    text, details = error_texts.text_of(error)
    body = {"error": text, "error_type": kind.error_type, "request_id": context.request_id}
    if details:
        body["details"] = details
    return kind.status, body


def error_response(
    error: ServiceError, context: RequestContext, shape: ErrorShape = own_shape
) -> Response:
    """Returns the response to an error, and records the error as the request's outcome."""
    context.outcome = outcome(error)
    status, body = shape(error, context)
    headers = {}
    if error.retry_after_seconds is not None:
        headers["Retry-After"] = str(error.retry_after_seconds)
    if status == 401:
        headers["WWW-Authenticate"] = "Bearer"
    return JSONResponse(body, status, headers)


def respond(request: Request, error: ServiceError) -> Response:
    """Returns the response to an error in the shape of the request's dialect."""
    return error_response(error, request.state.context, request.state.error_shape)


async def handle_service_error(request: Request, error: Exception) -> Response:
    """Answers an error that a route has raised."""
    assert isinstance(error, ServiceError)
    return respond(request, error)


async def handle_http_exception(request: Request, error: Exception) -> Response:
    """Answers an error of the framework, such as an unknown path or a wrong method.

    An OPTIONS request that is not a CORS preflight is no error. Its response lists the allowed
    methods.
    """
    assert isinstance(error, HTTPException)
    if error.status_code == 405:
        allowed = ", ".join(allowed_methods(request))
        if request.method == "OPTIONS":
            return Response(headers={"Allow": f"{allowed}, OPTIONS"})
        wrong = MethodNotAllowedError(f"{request.method} is not allowed here; use {allowed}")
        response = respond(request, wrong)
        response.headers["Allow"] = allowed
        return response
    if error.status_code == 404:
        missing = NotFoundError("there is no such address; GET /docs lists all routes")
        return respond(request, missing)
    return respond(request, InvalidRequestError(str(error.detail)))


def allowed_methods(request: Request) -> list[str]:
    """Returns the methods of all routes at the path of a request.

    Without this function, the framework names only the methods of the first route at the path.
    """
    routes = request.app.routes
    methods = [
        method
        for method in METHODS
        if any(r.matches({**request.scope, "method": method})[0] is Match.FULL for r in routes)
    ]
    return [*methods, "HEAD"] if "GET" in methods else methods


async def handle_validation_error(request: Request, error: Exception) -> Response:
    """Answers an error that the framework itself has found in a header or a path parameter."""
    assert isinstance(error, RequestValidationError)
    fault = error.errors()[0]
    place, name = fault["loc"][0], fault["loc"][-1]
    message = f"Invalid request: {place} {name}: {fault['msg']}"
    return respond(request, InvalidRequestError(message))
