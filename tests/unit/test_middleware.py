"""The middleware around small ASGI applications, for what no route of ours does."""

import asyncio
import json
from types import SimpleNamespace
from typing import Any, cast

import pytest
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from service.api.app import DIALECTS
from service.api.context import HttpContext, OpenRequests
from service.api.dialect import Routes
from service.api.middleware import RequestMiddleware, handle_http_exception
from service.api.vectors import TRUNCATED_HEADER
from service.http_server.drain import Drain
from service.http_server.loop_load import LoopLoad
from service.metrics.definitions import Metrics
from service.settings import Settings
from service.tasks.backend import Backend
from service.tasks.context import RequestContext
from service.tasks.table import task_series


def around(app: ASGIApp, metrics: Metrics) -> RequestMiddleware:
    """The middleware of a server that allows all hosts and all pages, and calls no endpoint."""
    allowed: dict[str, Any] = {"host": "0.0.0.0", "allowed_origins": ("*",)}
    settings, requests = Settings(**allowed), OpenRequests()
    drain = Drain(requests.count, 0, 1)
    backend = SimpleNamespace(recorder=metrics)
    services: Any = SimpleNamespace(settings=settings, backend=backend, requests=requests)
    found = RequestMiddleware(app, services, Routes(DIALECTS), drain, LoopLoad())
    table = found.routes.table
    found.routes.table = {key: each._replace(endpoint=None) for key, each in table.items()}
    return found


def call(
    app: ASGIApp, metrics: Metrics, path: str = "/translate", method: str = "POST"
) -> list[Message]:
    sent: list[Message] = []

    async def receive() -> Message:
        return {"type": "http.request"}

    async def send(message: Message) -> None:
        sent.append(message)

    scope = {"type": "http", "path": path, "query_string": b"", "method": method, "headers": []}
    middleware = around(app, metrics)
    asyncio.run(middleware(scope, receive, send))
    return sent


def count(metrics: Metrics, outcome: str) -> float | None:
    labels = {"task": "translate", "model": "none", "outcome": outcome}
    return metrics.registry.get_sample_value("regard_requests_total", labels)


def test_fault_after_the_answer_has_begun_sends_no_second_one(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def app(_scope: Scope, _receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        raise RuntimeError

    metrics = Metrics(series=task_series())
    sent = call(app, metrics)
    assert [message["type"] for message in sent] == ["http.response.start"]
    assert (count(metrics, "error"), count(metrics, "ok")) == (1, 0)
    assert "RuntimeError" in caplog.text


def test_fault_before_it_is_answered_whole() -> None:
    async def app(_scope: Scope, _receive: Receive, _send: Send) -> None:
        raise RuntimeError

    start, body = call(app, Metrics())
    assert start["status"] == 500
    headers = dict(start["headers"])
    answer = json.loads(body["body"])
    assert headers[b"x-request-id"].decode() == answer["request_id"]
    assert int(headers[b"content-length"]) == len(body["body"])


def test_cancelled_request_is_answered_and_the_cancellation_goes_on() -> None:
    async def app(_scope: Scope, _receive: Receive, _send: Send) -> None:
        raise asyncio.CancelledError

    metrics = Metrics(series=task_series())
    with pytest.raises(asyncio.CancelledError):
        call(app, metrics)
    assert (count(metrics, "unavailable"), count(metrics, "ok")) == (1, 0)


def test_log_of_a_fault_tells_where_and_not_what(caplog: pytest.LogCaptureFixture) -> None:
    secret = "Rumpelstiltskin"

    async def app(_scope: Scope, _receive: Receive, _send: Send) -> None:
        raise ValueError(secret)

    start, _ = call(app, Metrics())
    assert start["status"] == 500
    request_id = dict(start["headers"])[b"x-request-id"].decode()
    assert f"request {request_id} failed: ValueError" in caplog.text
    assert "test_middleware.py" in caplog.text
    assert secret not in caplog.text


def test_other_refusal_of_the_framework_has_our_shape() -> None:
    scope: dict[str, Any] = {
        "type": "http",
        "method": "GET",
        "path": "/",
        "query_string": b"",
        "headers": [],
    }
    state = {"context": HttpContext("some-id")}
    request = Request({**scope, "state": state})
    response = asyncio.run(handle_http_exception(request, HTTPException(418, "a teapot")))
    assert response.status_code == 400
    assert json.loads(bytes(response.body)) == {
        "error": "a teapot",
        "error_type": "invalid_request",
        "request_id": "some-id",
    }


@pytest.mark.parametrize(
    ("path", "is_openai"), [("/v1/embeddings", True), ("/v1/", True), ("/v12", False)]
)
def test_fault_has_openais_shape_under_v1(path: str, is_openai: bool) -> None:
    async def app(_scope: Scope, _receive: Receive, _send: Send) -> None:
        raise RuntimeError

    _, body = call(app, Metrics(), path=path)
    assert isinstance(json.loads(body["body"])["error"], dict) == is_openai


def test_pages_from_elsewhere_may_read_what_was_cut() -> None:
    """A browser hides from them every header of ours that is not named here."""

    async def app(_scope: Scope, _receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})

    start, *_ = call(app, Metrics())
    exposed = dict(start["headers"])[b"access-control-expose-headers"].decode()
    assert {TRUNCATED_HEADER, "Retry-After", "X-Request-Id"} <= set(exposed.split(", "))


def test_head_is_a_get_without_its_body() -> None:
    async def app(scope: Scope, _receive: Receive, send: Send) -> None:
        assert scope["method"] == "GET"
        headers = [(b"content-length", b"4")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": b"text"})

    start, body = call(app, Metrics(), path="/health", method="HEAD")
    assert (start["status"], dict(start["headers"])[b"content-length"]) == (200, b"4")
    assert body["body"] == b""


class FakeBackend:
    """A backend that admits every request, with leases that record their release.

    The middleware and the context use nothing else of a backend and of a lease.
    """

    def __init__(self) -> None:
        self.admitted: list[tuple[int, bool]] = []
        self.num_released = 0

    async def admit(self, tokens: int, at_once: bool, client: str = "") -> "FakeBackend":
        self.admitted.append((tokens, at_once))
        return self

    def release(self) -> None:
        self.num_released += 1


def call_admitted(app: ASGIApp, backend: FakeBackend) -> list[tuple[str, int]]:
    """Calls an app; returns each message that is sent, with the number of leases released then."""
    sent: list[tuple[str, int]] = []

    async def run() -> None:
        async def receive() -> Message:
            return {"type": "http.request"}

        async def send(message: Message) -> None:
            await asyncio.sleep(0)  # another task could run here
            sent.append((message["type"], backend.num_released))

        scope = {
            "type": "http",
            "path": "/translate",
            "query_string": b"",
            "method": "POST",
            "headers": [],
        }
        recorder = Metrics(series=task_series())
        middleware = around(app, recorder)
        await middleware(scope, receive, send)

    asyncio.run(run())
    return sent


async def admit(scope: Scope, backend: FakeBackend, tokens: int = 5) -> None:
    context: RequestContext = scope["state"]["context"]
    lease = await context.admit(cast("Backend", backend), tokens, num_chars=0)
    assert cast("object", lease) is backend


def test_lease_is_held_until_the_reply_has_been_written() -> None:
    """A request that waits for a slow client to read its reply counts in the admission."""
    backend = FakeBackend()

    async def app(scope: Scope, _receive: Receive, send: Send) -> None:
        await admit(scope, backend)
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"a", "more_body": True})
        await send({"type": "http.response.body", "body": b"b"})

    start, body = ("http.response.start", 0), ("http.response.body", 0)
    assert call_admitted(app, backend) == [start, body, body]
    assert backend.num_released == 1


def test_lease_is_held_until_the_reply_of_a_fault_has_been_written() -> None:
    backend = FakeBackend()

    async def app(scope: Scope, _receive: Receive, _send: Send) -> None:
        await admit(scope, backend)
        raise RuntimeError

    assert call_admitted(app, backend) == [("http.response.start", 0), ("http.response.body", 0)]
    assert backend.num_released == 1


@pytest.mark.parametrize("error", [ClientDisconnect, asyncio.CancelledError])
def test_lease_of_an_aborted_request_is_released(error: type[BaseException]) -> None:
    backend = FakeBackend()

    async def app(scope: Scope, _receive: Receive, _send: Send) -> None:
        await admit(scope, backend)
        raise error

    try:
        call_admitted(app, backend)
    except asyncio.CancelledError:
        assert error is asyncio.CancelledError
    assert backend.num_released == 1


def test_request_is_admitted_once() -> None:
    """A task that submits items several times has one lease."""
    backend = FakeBackend()

    async def app(scope: Scope, _receive: Receive, send: Send) -> None:
        await admit(scope, backend, tokens=5)
        await admit(scope, backend, tokens=7)
        await send({"type": "http.response.start", "status": 200, "headers": []})

    call_admitted(app, backend)
    assert backend.admitted == [(5, False)]
    assert backend.num_released == 1


def test_request_without_an_admission_has_nothing_to_release() -> None:
    backend = FakeBackend()

    async def app(_scope: Scope, _receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 400, "headers": []})

    call_admitted(app, backend)
    assert backend.num_released == 0
