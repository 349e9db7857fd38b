"""Middleware around every request: its id, timings and metrics, CORS, and direct routes.

A direct route is called without FastAPI. A dialect (`service.api.dialect`) is one of the APIs of
the server, such as OpenAI's.

The middleware is pure ASGI. Middleware that runs the routes in separate asyncio tasks would hide
the disconnection of a client from the routes.
"""

import asyncio
import logging
import random
import re
import time
from collections.abc import Sequence

from starlette.datastructures import Headers
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from service.api.dialect import OWN, Dialect, DialectOf, Endpoint
from service.api.errors import error_response, handle_service_error
from service.api.served_models import OpenRequests
from service.errors import InternalError, ServiceError, UnavailableError, fault
from service.metrics.definitions import Ended
from service.tasks.backend import Recorder
from service.tasks.context import RequestContext

logger = logging.getLogger("regard.http")

CLIENT_GONE = 499
"""Status, in the metrics, of a request whose client closed the connection before the response."""

CORS_MAX_AGE_SECONDS = 20 * 24 * 3600
CORS_METHODS = "GET, POST"
CORS_HEADERS = (
    (b"access-control-allow-origin", b"*"),
    (b"access-control-allow-headers", b"Authorization, Content-Type"),
    (b"access-control-allow-methods", CORS_METHODS.encode()),
    (b"access-control-max-age", str(CORS_MAX_AGE_SECONDS).encode()),
    (
        b"access-control-expose-headers",
        b"Retry-After, Server-Timing, X-Request-Id, X-Trace-ID, X-Truncated-Inputs",
    ),
)

PLAIN_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")


class RequestMiddleware:
    """Gives each request a RequestContext, and counts the request when it begins and when it ends.

    HEAD is served as GET without the body.

    Args:
        app: The wrapped application.
        recorder: Counts requests.
        requests: Registers the running requests.
        dialects: All dialects. The dialect of a request decides the label `task` of its metrics and
            the shape of its errors.
    """

    def __init__(
        self,
        app: ASGIApp,
        recorder: Recorder,
        requests: OpenRequests,
        dialects: Sequence[Dialect],
    ) -> None:
        self.app = app
        self.recorder = recorder
        self.requests = requests
        self.dialect_of = DialectOf(dialects)
        self.tasks = {path: task for each in dialects for path, task in each.tasks.items()}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serves one request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        method, path = scope["method"], scope["path"]
        dialect = self.dialect_of("GET" if method == "HEAD" else method, path)
        # A request with a wrong method has no dialect, but it is counted with the task of its path.
        tasks = self.tasks if dialect is OWN else dialect.tasks
        context = RequestContext(request_id(scope), task=tasks.get(path))
        state = scope.setdefault("state", {})
        state["context"], state["error_shape"] = context, dialect.error_shape
        response = ResponseSender(send, context, dialect)
        if scope["method"] == "HEAD":
            scope, response.has_body = {**scope, "method": "GET"}, False
        if context.task:
            self.recorder.begin(context.task)
            self.requests.begin(context)
        try:
            await self.app(scope, receive, response)
        except ClientDisconnect:  # the client left before the response
            context.outcome = "cancelled"
        except asyncio.CancelledError:  # the request took longer than a stopping server waits
            await response.fail(UnavailableError("the server is stopping; try again", 1))
            raise
        except Exception as error:
            logger.error("request %s failed: %s", context.request_id, fault(error))
            await response.fail(InternalError("the server failed; the log has this request's id"))
        finally:
            context.release()
            if context.task:
                self.requests.end(context)
                self.recorder.end(ended(context, context.task, response.status or CLIENT_GONE))


class ResponseSender:
    """Sends the messages of a response, with the headers that every response has.

    Args:
        send: Sends a message to the client.
        context: Id and timings of the request.
        dialect: Dialect of the request, for the shape of an error.

    Attributes:
        status: HTTP status of the response; None until it has begun.
        has_body: False for a response to HEAD.
    """

    def __init__(self, send: Send, context: RequestContext, dialect: Dialect) -> None:
        self.send = send
        self.context = context
        self.dialect = dialect
        self.status: int | None = None
        self.has_body = True

    async def __call__(self, message: Message) -> None:
        """Sends one message of the response."""
        if message["type"] == "http.response.start":
            self.status = message["status"]
            headers = message["headers"]
            headers += CORS_HEADERS
            request_id = self.context.request_id.encode("latin-1")
            headers.append((b"x-request-id", request_id))
            if self.dialect.id_header:
                headers.append((self.dialect.id_header.lower().encode(), request_id))
            if self.context.stages:
                headers.append((b"server-timing", self.context.server_timing().encode("latin-1")))
        elif not self.has_body:
            message = {**message, "body": b""}
        await self.send(message)

    async def fail(self, error: ServiceError) -> None:
        """Records an error as the outcome, and sends it unless a response has begun."""
        response = error_response(error, self.context, self.dialect.error_shape)
        if self.status is None:
            await self(
                {
                    "type": "http.response.start",
                    "status": response.status_code,
                    "headers": response.raw_headers,
                }
            )
            await self({"type": "http.response.body", "body": response.body})


def ended(context: RequestContext, task: str, status: int) -> Ended:
    """Returns the record of a request that ends now, for the metrics."""
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
    )


def request_id(scope: Scope) -> str:
    """Returns the client's request id if it is short and plain, and otherwise a new one."""
    for name, value in scope["headers"]:
        if name == b"x-request-id" and PLAIN_ID.fullmatch(value.decode("latin-1")):
            return str(value.decode("latin-1"))
    return f"{random.getrandbits(64):016x}"


class CrossOrigin(CORSMiddleware):
    """Allows pages of any origin to call the server, with any header.

    This class only answers preflights. `ResponseSender` adds the CORS headers to all other
    responses, as LibreTranslate does. LibreTranslate has no DELETE, so the response to a preflight
    names DELETE only if the page asks for it.

    Args:
        app: The wrapped application.
    """

    def __init__(self, app: ASGIApp) -> None:
        super().__init__(
            app,
            allow_origins=["*"],
            allow_methods=[*CORS_METHODS.split(", "), "DELETE"],
            allow_headers=["*"],  # OpenAI's library sends a dozen headers named X-Stainless-…
            max_age=CORS_MAX_AGE_SECONDS,
        )

    def preflight_response(self, request_headers: Headers) -> Response:
        """Returns the response to a preflight."""
        response = super().preflight_response(request_headers)
        if request_headers["access-control-request-method"] != "DELETE":
            response.headers["access-control-allow-methods"] = CORS_METHODS
        return response

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers a preflight, or passes a request on."""
        if scope["type"] == "http" and scope["method"] == "OPTIONS":
            await super().__call__(scope, receive, send)
        else:
            await self.app(scope, receive, send)


class DirectRoutes:
    """Calls the endpoints of the busiest routes directly, and passes other requests on.

    FastAPI does not call these routes; it only describes them in /openapi.json. Its dependencies,
    context stacks and nested routers would take as much time as all other work on a short text.

    Args:
        app: The framework.
        dialects: Dialects whose `direct` endpoints are called.
    """

    def __init__(self, app: ASGIApp, dialects: Sequence[Dialect]) -> None:
        self.app = app
        self.endpoints: dict[tuple[str, str], Endpoint] = {}
        for dialect in dialects:
            self.endpoints.update(dialect.direct)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serves one request."""
        is_http = scope["type"] == "http"
        endpoint = self.endpoints.get((scope["method"], scope["path"])) if is_http else None
        if endpoint is None:
            await self.app(scope, receive, send)
            return
        request = Request(scope, receive)
        try:
            response = await endpoint(request)
        except ServiceError as error:
            response = await handle_service_error(request, error)
        await response(scope, receive, send)
