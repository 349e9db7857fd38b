"""The application: the middleware of every request, and the answers to FastAPI's errors.

The middleware is pure ASGI. Middleware that runs the routes in separate asyncio tasks would hide
the disconnection of a client from the routes.
"""

import asyncio
import logging
import math
import random
import re
import time
from collections.abc import Awaitable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.middleware.exceptions import ExceptionMiddleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Match
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from service import errors
from service.api import error_texts
from service.api.access import AccessRules, CrossOrigin
from service.api.context import HttpContext, Services, context_of
from service.api.dialect import Route, Routes
from service.api.errors import ErrorShape, own_shape
from service.api.request.parameters import move_definitions
from service.api.responses import JSONResponse, LengthSender
from service.http_server.connection import ARRIVAL_KEY, NO_ARRIVAL, Connection
from service.http_server.drain import Drain
from service.http_server.early_refusals import EarlyRefusals, RawHeaders
from service.http_server.loop_load import LoopLoad, account_of, first_values, too_many
from service.metrics.figures import Ended
from service.metrics.load_report import HEADER, INTERVAL_SECONDS, LoadReport
from service.tasks.backend import Admitter
from service.tasks.context import RequestContext

if TYPE_CHECKING:  # regard[otel] may be missing
    from service.api.spans import OtlpSpan, OtlpTracing

logger = logging.getLogger("regard.http")

CLIENT_GONE = 499
"""Status in the metrics if the client closes the connection before the response begins."""

FULL_DISK_SECONDS = 60
"""Time after which a client may try again."""

PLAIN_ID = re.compile(rb"[A-Za-z0-9._-]{1,64}")

KEY_SCHEMES = {
    "bearer": {"type": "http", "scheme": "bearer"},
    "header": {"type": "apiKey", "in": "header", "name": "X-API-Key"},
}
"""The ways to send a key, for OpenAPI. A server without keys needs none."""

TIMEOUT = re.compile(r"[0-9]{1,10}")


class Application(FastAPI):
    """A FastAPI application whose requests pass through RequestMiddleware alone.

    FastAPI describes all routes, and calls the endpoints that the middleware does not call.
    """

    def __init__(
        self, services: Services, drain: Drain, early: EarlyRefusals, **options: Any
    ) -> None:
        super().__init__(**options)
        self.services = services
        self.drain = drain
        self.early = early

    def serve(self, requests: ASGIApp) -> None:
        self.requests = requests
        # Preflights are not counted.
        self.preflights = CrossOrigin(requests, self.services.settings.allowed_origins)

    def __call__(  # type: ignore[override]
        self, scope: Scope, receive: Receive, send: Send
    ) -> Awaitable[None]:
        if scope["type"] != "http":
            return super().__call__(scope, receive, send)
        scope["app"] = self
        app = self.preflights if scope["method"] == "OPTIONS" else self.requests
        return app(scope, receive, send)

    def build_middleware_stack(self) -> ASGIApp:
        """Returns FastAPI's routes and error handlers, without its layers for other errors."""
        stack: Any = super().build_middleware_stack()
        while not isinstance(stack, ExceptionMiddleware):
            stack = stack.app
        return stack

    def openapi(self) -> dict[str, Any]:
        document = super().openapi()
        move_definitions(document)
        document["components"]["securitySchemes"] = KEY_SCHEMES
        document["security"] = [{}, *({name: []} for name in KEY_SCHEMES)]
        return document


@dataclass(eq=False)
class RequestMiddleware:
    """Gives each request an HttpContext, calls its endpoint, and counts it if it has a task."""

    app: ASGIApp  # serves the requests whose endpoint the table of routes does not have
    services: Services
    routes: Routes
    drain: Drain
    load: LoopLoad
    tracing: "OtlpTracing | None" = None

    def __post_init__(self) -> None:
        settings, backend = self.services.settings, self.services.backend
        self.access = AccessRules(settings)
        self.recorder, self.requests = backend.recorder, self.services.requests
        self.reports = LoadReports(backend) if settings.load_reports else None
        self.timeout_seconds = settings.request_timeout_seconds

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        method = scope["method"]
        route, context = self._begin(scope)
        cors = self.access.origins.headers
        if cors is None:
            cors = self.access.origins.response_headers(scope["headers"])
        if scope.get("http_version") == "1.0" and method != "HEAD":
            send = LengthSender(context, send)
        response = ResponseSender(send, context, self, cors)
        if method == "HEAD":
            scope, response.has_body = {**scope, "method": "GET"}, False
        span = self.tracing.begin(scope, context) if self.tracing and context.task else None
        try:
            self._check(scope, context)
            if route.endpoint is None:
                await self.app(scope, receive, response)
            else:
                found = await route.endpoint(Request(scope, receive))
                if type(found).__call__ is Response.__call__:
                    await response.send_whole(found, context.connection)
                else:  # a stream
                    await found(scope, receive, response)
        except ClientDisconnect:  # the client disconnected before the end of the response
            context.outcome = "cancelled"
        except asyncio.CancelledError:  # the server stops and cancels the request
            await response.fail(errors.stopping())
            raise
        except Exception as error:
            await response.fail(failure_of(error, context))
        finally:
            self._end(context, response.status or CLIENT_GONE, span)

    def _begin(self, scope: Scope) -> tuple[Route, HttpContext]:
        method, path = scope["method"], scope["path"]
        if scope["query_string"] or path[-1:] == "/":
            path = scope["path"] = self.routes.path_of(path, scope["query_string"])
        key = "GET" if method == "HEAD" else method, path
        route = self.routes.table.get(key) or self.routes.unknown(path)
        state = scope.setdefault("state", {})
        connection, headers, is_admitted, began = state.get(ARRIVAL_KEY, NO_ARRIVAL)
        if headers is None:
            headers = first_values(scope["headers"])
        given = headers.get(b"x-request-id")
        if given is not None and PLAIN_ID.fullmatch(given):
            request_id = given.decode()
        else:
            request_id = f"{random.getrandbits(64):016x}"
        client = scope.get("client")  # None if the server listens on a Unix socket
        context = HttpContext(
            request_id,
            time.perf_counter() if began is None else began,
            route.task,
            address=client[0] if client else "",
            dialect=route.dialect,
            headers=headers,
            connection=connection,
            is_admitted=is_admitted,
            timeout_seconds=self.timeout_seconds,
        )
        context.services = self.services
        state["context"] = context
        if self.reports is not None:
            self.reports.sample_soon()
        if context.task:
            self.recorder.begin(context.task)
            self.requests.begin(context)
        return route, context

    def _check(self, scope: Scope, context: HttpContext) -> None:
        if context.task:
            if context.is_admitted is None:
                account = account_of(context.address, context.headers)
                context.is_admitted = self.load.admits(account)
            if not context.is_admitted:
                raise too_many()
        self.access.check(scope, context.headers)
        timeout = context.headers.get(b"x-request-timeout-ms")
        if timeout is not None:
            context.client_seconds = parse_timeout(timeout.decode("latin-1"))
        if context.task and self.drain.refuses_work:
            raise errors.stopping()

    def _end(self, context: HttpContext, status: int, span: "OtlpSpan | None") -> None:
        context.release()
        # The request and its reservation refer to each other. This breaks the cycle, so both are
        # freed at once and do not wait for the garbage collector.
        reservation, context.reservation = context.reservation, None
        if reservation is not None:
            reservation.release()
        if not context.task:
            return
        self.requests.end(context)
        if context.outcome in errors.OVERLOAD_OUTCOMES and context.is_admitted:
            self.load.add_refusal(account_of(context.address, context.headers))
        self.recorder.end(ended(context, context.task, status))
        if span:
            span.end(context, status)


@dataclass(slots=True, eq=False)
class ResponseSender:
    """Sends the messages of a response, with the headers that every response has."""

    send: Send
    context: HttpContext
    middleware: RequestMiddleware
    cors: RawHeaders
    status: int | None = None  # None before the response begins
    has_body: bool = True  # False for a response to HEAD

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self._complete(message["status"], message["headers"])
        elif not self.has_body:
            message = {**message, "body": b""}
        await self.send(message)

    def _complete(self, status: int, headers: list[tuple[bytes, bytes]]) -> None:
        self.status, context = status, self.context
        headers += self.cors
        request_id = context.request_id.encode()
        headers.append((b"x-request-id", request_id))
        if context.dialect.id_header:
            headers.append((context.dialect.id_header.lower().encode(), request_id))
        if self.middleware.drain.has_begun:
            headers.append((b"connection", b"close"))
        if context.stages:
            headers.append((b"server-timing", context.server_timing().encode()))
        reports = self.middleware.reports
        if reports is not None and reports.report.value:
            headers.append((HEADER, reports.report.value))

    async def send_whole(self, response: Response, connection: Connection | None = None) -> None:
        status, headers = response.status_code, response.raw_headers
        self._complete(status, headers)
        body = response.body if self.has_body else b""
        if connection is None or not self.has_body or self.middleware.drain.has_begun:
            is_sent = False
        else:
            is_sent = connection.reply(status, headers, body)
        if not is_sent:
            await self.send({"type": "http.response.start", "status": status, "headers": headers})
            await self.send({"type": "http.response.body", "body": body})

    async def fail(self, error: errors.ServiceError) -> None:
        response = error_response(error, self.context, self.context.dialect.error_shape)
        if self.status is None:
            await self.send_whole(response)


class LoadReports:
    def __init__(self, backend: Admitter) -> None:
        self.backend = backend
        self.report = LoadReport()  # without a value while the load is not known
        self.sampled = -math.inf
        self.sampling: asyncio.Task[None] | None = None

    def sample_soon(self) -> None:
        now = time.monotonic()
        if now - self.sampled >= INTERVAL_SECONDS and self.sampling is None:
            self.sampled = now
            self.sampling = asyncio.create_task(self._sample())

    async def _sample(self) -> None:
        try:
            status = await self.backend.status()
            self.report.add(status.load, time.monotonic())
        except errors.ServiceError:  # the core process does not answer
            self.report = LoadReport()
        finally:
            self.sampling = None


def error_response(
    error: errors.ServiceError, context: RequestContext, shape: ErrorShape = own_shape
) -> Response:
    context.outcome = errors.outcome(error)
    status, body = shape(error, context)
    headers = {}
    if error.retry_after_seconds is not None:
        headers["Retry-After"] = str(error.retry_after_seconds)
    if status == 401:
        headers["WWW-Authenticate"] = "Bearer"
    return JSONResponse(body, status, headers)


def failure_of(error: Exception, context: RequestContext) -> errors.ServiceError:
    """Returns the error that the client gets. An error that is not of the request is logged."""
    if isinstance(error, errors.ServiceError):
        return error
    logger.error(
        "request %s failed: %s",
        context.request_id,
        errors.fault(error),
        extra={"request_id": context.request_id},
    )
    if isinstance(error, OSError) and error.errno in errors.FULL_DISK:
        return errors.UnavailableError(
            "the server has no space left for documents; try again later. Its operator can free "
            "space in the temporary folder, or name another one in TMPDIR",
            FULL_DISK_SECONDS,
        )
    return errors.InternalError("the server failed; the log has this request's id")


def ended(context: RequestContext, task: str, status: int) -> Ended:
    return Ended(
        task=task,
        model=context.model,
        outcome=context.outcome,
        status=status,
        num_inputs=context.num_inputs,
        seconds=time.perf_counter() - context.started,
        stages=context.stages,
        num_cut=context.num_cut,
        billed_characters=context.billed_characters,
        first_sentence_seconds=context.first_sentence_seconds,
        trace_id=context.times.trace_id if context.times else "",
        rejected=context.rejected,
    )


def parse_timeout(text: str) -> float:
    if TIMEOUT.fullmatch(text) and int(text):
        return int(text) / 1000
    raise errors.InvalidRequestError(
        f"X-Request-Timeout-Ms is {text[: errors.SHOWN_CHARS]}; it must be a whole number of "
        "milliseconds from 1 to 9999999999. Without this header, the server's own time limit "
        "applies."
    )


def respond(request: Request, error: errors.ServiceError) -> Response:
    context = context_of(request)
    return error_response(error, context, context.dialect.error_shape)


async def handle_http_exception(request: Request, error: Exception) -> Response:
    """Answers a request with an unknown path or a wrong method."""
    assert isinstance(error, HTTPException)
    if error.status_code != 405:
        return respond(request, error_texts.unknown_path())
    allowed = ", ".join(allowed_methods(request))
    if request.method == "OPTIONS":
        return Response(headers={"Allow": f"{allowed}, OPTIONS"})
    wrong = errors.MethodNotAllowedError(f"{request.method} is not allowed here; use {allowed}")
    response = respond(request, wrong)
    response.headers["Allow"] = allowed
    return response


def allowed_methods(request: Request) -> list[str]:
    routes = request.app.routes
    methods = [
        method
        for method in ("GET", "POST", "PUT", "PATCH", "DELETE")
        if any(r.matches({**request.scope, "method": method})[0] is Match.FULL for r in routes)
    ]
    return [*methods, "HEAD"] if "GET" in methods else methods


async def handle_validation_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    first = error.errors()[0]
    place, name = first["loc"][0], first["loc"][-1]
    message = f"Invalid request: {place} {name}: {first['msg']}"
    return respond(request, errors.InvalidRequestError(message))
