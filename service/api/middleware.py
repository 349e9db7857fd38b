"""The middleware of every request: request id, timings, metrics, access rules, direct routes.

A direct route is a route whose endpoint the middleware calls without FastAPI. A dialect
(`service.api.dialect`) is one of the APIs of the server, such as OpenAI's.

The middleware is pure ASGI. Middleware that runs the routes in separate asyncio tasks would hide
the disconnection of a client from the routes.
"""

import asyncio
import logging
import math
import random
import re
import time
from collections.abc import Sequence

from starlette.requests import ClientDisconnect, Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from service.api.access.origins import RawHeaders
from service.api.access.rules import AccessRules
from service.api.dialect import OWN, Dialect, DialectOf, Endpoint
from service.api.errors import error_response, handle_service_error
from service.api.request.body_reader import RESERVATION_KEY
from service.api.responses import LengthSender
from service.api.served_models import OpenRequests
from service.api.tracing.setup import RequestSpan, Tracing
from service.errors import (
    OVERLOAD_OUTCOMES,
    SHOWN_CHARS,
    InternalError,
    InvalidRequestError,
    ServiceError,
    UnavailableError,
    fault,
)
from service.http_server.drain import Drain
from service.http_server.loop_load import LoopLoad, account_of, too_many
from service.http_server.request_connection import ADMITTED_KEY, ARRIVED_KEY
from service.metrics.ended import Ended
from service.metrics.load_report import HEADER, INTERVAL_SECONDS, LoadReport
from service.tasks.backend import Admitter, Recorder
from service.tasks.context import RequestContext

logger = logging.getLogger("regard.http")

CLIENT_GONE = 499
"""Status in the metrics if the client closes the connection before the response begins."""

PLAIN_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")

TIMEOUT_HEADER = b"x-request-timeout-ms"
TIMEOUT = re.compile(r"[0-9]{1,10}")


class RequestMiddleware:
    """Gives each request a RequestContext, and counts the requests that have a task.

    `Dialect.tasks` gives the task of a path. The middleware counts a request when the request
    begins and when it ends. A HEAD request is served as GET, and the response has no body.

    Args:
        app: The wrapped application.
        recorder: Counts requests.
        requests: Registers the running requests.
        dialects: All dialects. The dialect of a request decides the label `task` of its metrics and
            the shape of its errors.
        tracing: Makes a span for each counted request; None without tracing.
        drain: Phases of the shutdown of this process.
        access: Refuses requests whose host, origin or port is not allowed.
        load: Refuses requests if more arrive than this process can handle.
    """

    def __init__(
        self,
        app: ASGIApp,
        recorder: Recorder,
        requests: OpenRequests,
        dialects: Sequence[Dialect],
        access: AccessRules,
        drain: Drain,
        load: LoopLoad,
        tracing: Tracing | None = None,
    ) -> None:
        self.app = app
        self.load = load
        self.access = access
        self.drain = drain
        self.tracing = tracing
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
        # A request with a wrong method matches no route. If its path has the prefix of a dialect,
        # the request gets that dialect and its tasks. Otherwise it gets OWN, which has no tasks, so
        # its path is looked up in the tasks of all dialects.
        tasks = self.tasks if dialect is OWN else dialect.tasks
        context = RequestContext(request_id(scope), task=tasks.get(path), address=address(scope))
        state = scope.setdefault("state", {})
        context.started = state.get(ARRIVED_KEY, context.started)
        state["context"], state["error_shape"] = context, dialect.error_shape
        state["scope"] = dialect.scope
        cors = self.access.origins.response_headers(scope["headers"])
        if scope.get("http_version") == "1.0" and method != "HEAD":
            send = LengthSender(scope, send)
        response = ResponseSender(send, context, dialect, self.drain, cors)
        if method == "HEAD":
            scope, response.has_body = {**scope, "method": "GET"}, False
        span = self._begin(scope, context, context.task) if context.task else None
        try:
            self._check(scope, context)
            await self.app(scope, receive, response)
        except ServiceError as error:  # raised by `_check`
            await response.fail(error)
        except ClientDisconnect:  # the client disconnected before the end of the response
            context.outcome = "cancelled"
        except asyncio.CancelledError:  # the server stops and cancels the request
            await response.fail(stopping())
            raise
        except Exception as error:
            logger.error(
                "request %s failed: %s",
                context.request_id,
                fault(error),
                extra={"request_id": context.request_id},
            )
            await response.fail(InternalError("the server failed; the log has this request's id"))
        finally:
            context.release()
            # The request and its reservation refer to each other. `pop` breaks this cycle, so both
            # are freed at once and do not wait for the garbage collector.
            if (reservation := state.pop(RESERVATION_KEY, None)) is not None:
                reservation.release()
            if context.task:
                self._end(scope, context, response.status or CLIENT_GONE, span)

    def _begin(self, scope: Scope, context: RequestContext, task: str) -> RequestSpan | None:
        """Counts a request that has arrived; returns the span of a traced request."""
        self.recorder.begin(task)
        self.requests.begin(context)
        return self.tracing.begin(scope, context) if self.tracing else None

    def _end(
        self, scope: Scope, context: RequestContext, status: int, span: RequestSpan | None
    ) -> None:
        """Counts a request that has ended, and ends the span of the request."""
        self.requests.end(context)
        if context.outcome in OVERLOAD_OUTCOMES and scope["state"][ADMITTED_KEY]:
            self.load.add_refusal(account_of(context.address, scope["headers"]))
        assert context.task is not None
        self.recorder.end(ended(context, context.task, status))
        if span:
            span.end(context, status)

    def _check(self, scope: Scope, context: RequestContext) -> None:
        """Refuses a request whose host, origin, port or time limit is not allowed.

        A counted request is also refused if this process is overloaded or stopping.

        Raises:
            ServiceError: The request is refused.
        """
        if context.task:
            state = scope["state"]
            if ADMITTED_KEY not in state:
                account = account_of(context.address, scope["headers"])
                state[ADMITTED_KEY] = self.load.admits(account)
            if not state[ADMITTED_KEY]:
                raise too_many()
        self.access.check(scope)
        timeout = header(scope, TIMEOUT_HEADER)
        if timeout is not None:
            context.client_seconds = parse_timeout(timeout)
        if context.task and self.drain.refuses_work:
            raise stopping()


class ResponseSender:
    """Sends the messages of a response, with the headers that every response has.

    Args:
        send: Sends a message to the client.
        context: Id and timings of the request.
        dialect: Dialect of the request, for the shape of an error.
        drain: Phases of the shutdown of this process.
        cors: CORS headers of the response.

    Attributes:
        status: HTTP status of the response; None before the response begins.
        has_body: False for a response to HEAD.
    """

    def __init__(
        self,
        send: Send,
        context: RequestContext,
        dialect: Dialect,
        drain: Drain,
        cors: RawHeaders = (),
    ) -> None:
        self.send = send
        self.drain = drain
        self.cors = cors
        self.context = context
        self.dialect = dialect
        self.status: int | None = None
        self.has_body = True

    async def __call__(self, message: Message) -> None:
        """Sends one message of the response."""
        if message["type"] == "http.response.start":
            self.status = message["status"]
            headers = message["headers"]
            headers += self.cors
            request_id = self.context.request_id.encode("latin-1")
            headers.append((b"x-request-id", request_id))
            if self.dialect.id_header:
                headers.append((self.dialect.id_header.lower().encode(), request_id))
            if self.drain.has_begun:
                headers.append((b"connection", b"close"))
            if self.context.stages:
                headers.append((b"server-timing", self.context.server_timing().encode("latin-1")))
        elif not self.has_body:
            message = {**message, "body": b""}
        await self.send(message)

    async def fail(self, error: ServiceError) -> None:
        """Records an error as the outcome, and sends the error if no response has begun."""
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


class LoadReports:
    """Adds a header with the load of the server to each response.

    While the load is not known, as at the start, responses do not have this header.

    Args:
        app: The wrapped application.
        backend: Reports the state of the server.
    """

    def __init__(self, app: ASGIApp, backend: Admitter) -> None:
        self.app = app
        self.backend = backend
        self.report = LoadReport()
        self.sampled = -math.inf
        self.sampling: asyncio.Task[None] | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serves one request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        now = time.monotonic()
        if now - self.sampled >= INTERVAL_SECONDS and self.sampling is None:
            self.sampled = now
            self.sampling = asyncio.create_task(self._sample())

        async def send_with_load(message: Message) -> None:
            if message["type"] == "http.response.start" and self.report.value:
                message["headers"].append((HEADER, self.report.value))
            await send(message)

        await self.app(scope, receive, send_with_load)

    async def _sample(self) -> None:
        try:
            status = await self.backend.status()
            self.report.add(status.load, time.monotonic())
        except ServiceError:  # the core process does not answer
            self.report = LoadReport()
        finally:
            self.sampling = None


def stopping() -> UnavailableError:
    """Returns the error for a request that a stopping server refuses or cancels."""
    return UnavailableError("the server is stopping; try again", 1)


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
        trace_id=context.times.trace_id if context.times else "",
        rejected=context.rejected,
    )


def request_id(scope: Scope) -> str:
    """Returns the client's request id if it matches PLAIN_ID, and otherwise a new id."""
    given = header(scope, b"x-request-id")
    if given is not None and PLAIN_ID.fullmatch(given):
        return given
    return f"{random.getrandbits(64):016x}"


def address(scope: Scope) -> str:
    """Returns the address of the client; "" if the server listens on a Unix socket."""
    client = scope.get("client")
    return client[0] if client else ""


def header(scope: Scope, name: bytes) -> str | None:
    """Returns the first value of a header, or None if it is absent; `name` is in lower case."""
    for each, value in scope["headers"]:
        if each == name:
            return str(value.decode("latin-1"))
    return None


def parse_timeout(text: str) -> float:
    """Returns the time limit of a client, in seconds.

    Raises:
        InvalidRequestError: The text is not a whole number of milliseconds from 1 to 9999999999.
    """
    if TIMEOUT.fullmatch(text) and int(text):
        return int(text) / 1000
    raise InvalidRequestError(
        f"X-Request-Timeout-Ms is {text[:SHOWN_CHARS]}; it must be a whole number of milliseconds "
        "from 1 to 9999999999. Without this header, the server's own time limit applies."
    )


class DirectRoutes:
    """Calls the endpoints of the busiest routes directly, and passes other requests on.

    FastAPI does not call these routes; it only describes them in /openapi.json. FastAPI's
    dependencies, context stacks and nested routers would take as much time as all other work on a
    short text.

    Args:
        app: The application that serves all other requests.
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
