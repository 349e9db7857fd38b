"""The middleware around small ASGI applications, for what no route of ours does."""

import asyncio
import json
from typing import Any

import pytest
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from service.api.app import DIALECTS
from service.api.errors import handle_http_exception, own_shape
from service.api.middleware import RequestMiddleware
from service.api.served_models import OpenRequests
from service.api.tei.formats import TRUNCATED_HEADER
from service.metrics.definitions import Metrics
from service.tasks.context import RequestContext


def call(
    app: ASGIApp,
    metrics: Metrics,
    kind: str = "http",
    path: str = "/translate",
    method: str = "POST",
) -> list[Message]:
    """What is sent in answer to a request."""
    sent: list[Message] = []

    async def receive() -> Message:
        return {"type": "http.request"}

    async def send(message: Message) -> None:
        sent.append(message)

    scope = {"type": kind, "path": path, "method": method, "headers": []}
    middleware = RequestMiddleware(app, metrics, OpenRequests(), DIALECTS)
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

    metrics = Metrics()
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

    metrics = Metrics()
    with pytest.raises(asyncio.CancelledError):
        call(app, metrics)
    assert (count(metrics, "unavailable"), count(metrics, "ok")) == (1, 0)


def test_what_is_no_request_passes() -> None:
    async def app(scope: Scope, _receive: Receive, send: Send) -> None:
        assert "state" not in scope
        await send({"type": "lifespan.startup.complete"})

    assert call(app, Metrics(), "lifespan") == [{"type": "lifespan.startup.complete"}]


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
    scope: dict[str, Any] = {"type": "http", "method": "GET", "path": "/", "headers": []}
    state = {"context": RequestContext("some-id"), "error_shape": own_shape}
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
