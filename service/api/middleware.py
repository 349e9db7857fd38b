"""Around every request: its id, its timings, its figures, and an answer even to a fault of ours.

Pure ASGI: middleware that hands responses through tasks of its own would hide from the routes
that a client has gone.
"""

import asyncio
import logging
import random
import re
import time
from collections.abc import Awaitable, Callable, Mapping

from starlette.middleware.cors import CORSMiddleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from service.api.openai.errors import OPENAI_PREFIX
from service.api.responses import error_response, handle_service_error
from service.api.served_models import OpenRequests
from service.errors import InternalError, ServiceError, UnavailableError, fault
from service.metrics.definitions import Ended
from service.tasks.backend import Recorder
from service.tasks.context import RequestContext

logger = logging.getLogger("regard.http")

TASKS = {
    "/translate": "translate",
    "/detect": "detect",
    "/attention": "attention",
    "/attention/steps": "attention",
    "/embed": "embed",
    "/embed_all": "embed",
    "/similarity": "embed",
    "/v1/embeddings": "embed",
}
CLIENT_GONE = 499
"""The status of a request whose client has closed the connection; nobody gets it."""

Endpoint = Callable[[Request], Awaitable[Response]]

CORS_MAX_AGE_SECONDS = 20 * 24 * 3600
OPEN_TO_PAGES = (
    (b"access-control-allow-origin", b"*"),
    (
        b"access-control-expose-headers",
        b"Retry-After, Server-Timing, X-Request-Id, X-Truncated-Inputs",
    ),
)

PLAIN_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")


class RequestMiddleware:
    """Gives each request a RequestContext and counts it when it has been answered.

    Args:
        app: What is wrapped.
        recorder: Who counts it.
        requests: Who knows which are under way.
    """

    def __init__(self, app: ASGIApp, recorder: Recorder, requests: OpenRequests) -> None:
        self.app = app
        self.recorder = recorder
        self.requests = requests

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serves one request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        path = scope["path"]
        context = RequestContext(
            request_id(scope), task=TASKS.get(path), is_openai=path.startswith(OPENAI_PREFIX)
        )
        scope.setdefault("state", {})["context"] = context
        reply = Reply(send, context)
        if context.task:
            self.recorder.begin(context.task)
            self.requests.begin(context)
        try:
            await self.app(scope, receive, reply)
        except ClientDisconnect:  # while it sent its body, or waited for the answer
            context.outcome = "cancelled"
        except asyncio.CancelledError:  # it took longer than a stopping server waits
            await reply.fail(UnavailableError("the server is stopping; try again", 1))
            raise
        except Exception as error:
            logger.error("request %s failed: %s", context.request_id, fault(error))
            await reply.fail(InternalError("the server failed; the log has this request's id"))
        finally:
            context.release()
            if context.task:
                self.requests.end(context)
                self.recorder.end(ended(context, context.task, reply.status or CLIENT_GONE))


class Reply:
    """Sends a response on with the headers that every response has.

    Args:
        send: The server's.
        context: Whose id and timings go along.
    """

    def __init__(self, send: Send, context: RequestContext) -> None:
        self.send = send
        self.context = context
        self.status: int | None = None

    async def __call__(self, message: Message) -> None:
        """Sends one message of the response."""
        if message["type"] == "http.response.start":
            self.status = message["status"]
            headers = message["headers"]
            headers += OPEN_TO_PAGES
            headers.append((b"x-request-id", self.context.request_id.encode("latin-1")))
            if self.context.stages:
                headers.append((b"server-timing", self.context.server_timing().encode("latin-1")))
        await self.send(message)

    async def fail(self, error: ServiceError) -> None:
        """Answers with an error, unless an answer has begun; the outcome is the error's anyway."""
        response = error_response(error, self.context)
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
    """What is counted of a request that ends now."""
    return Ended(
        task=task,
        model=context.model,
        outcome=context.outcome,
        status=status,
        num_inputs=context.num_inputs,
        seconds=time.perf_counter() - context.started,
        stages=context.stages,
        num_cut=context.num_cut,
    )


def request_id(scope: Scope) -> str:
    """The client's own id where it is short and plain, else a new one."""
    for name, value in scope["headers"]:
        if name == b"x-request-id" and PLAIN_ID.fullmatch(value.decode("latin-1")):
            return str(value.decode("latin-1"))
    return f"{random.getrandbits(64):016x}"


class OpenToPages(CORSMiddleware):
    """Tells browsers that pages from anywhere may use the server.

    Every response says so, whoever asks (`Reply`), so that only preflights are left to do.

    Args:
        app: What is wrapped.
    """

    def __init__(self, app: ASGIApp) -> None:
        super().__init__(
            app,
            allow_origins=["*"],
            allow_methods=["GET", "POST"],
            allow_headers=["Authorization", "Content-Type"],
            max_age=CORS_MAX_AGE_SECONDS,
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers a preflight, or passes a request on."""
        if scope["type"] == "http" and scope["method"] == "OPTIONS":
            await super().__call__(scope, receive, send)
        else:
            await self.app(scope, receive, send)


class DirectRoutes:
    """Takes the requests of a few routes past the framework, and hands it all others.

    What is asked for most is only described by FastAPI: its dependencies, stacks of contexts and
    nested routers cost as much as all of our own work on a short text.

    Args:
        app: The framework.
        endpoints: By method and path.
    """

    def __init__(self, app: ASGIApp, endpoints: Mapping[tuple[str, str], Endpoint]) -> None:
        self.app = app
        self.endpoints = endpoints

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
