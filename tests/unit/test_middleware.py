"""The middleware around small ASGI applications that fail in ways in which no route fails."""

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from service.api.app import DIALECTS
from service.api.context import OpenRequests
from service.api.dialect import Routes
from service.api.middleware import RequestMiddleware
from service.http_server.drain import Drain
from service.http_server.loop_load import LoopLoad
from service.metrics.definitions import Metrics
from service.settings import Settings
from service.tasks.backend import Backend
from service.tasks.context import RequestContext
from service.tasks.table import task_series

START: Message = {"type": "http.response.start", "status": 200, "headers": []}


class FakeBackend:
    """A backend that admits every request, with leases that record their release.

    The middleware and the context use nothing else of a backend and of a lease.
    """

    def __init__(self) -> None:
        self.num_released = 0
        self.metrics = Metrics(series=task_series())

    async def admit(self, tokens: int, at_once: bool, client: str = "") -> "FakeBackend":
        return self

    def release(self) -> None:
        self.num_released += 1

    def count(self, outcome: str) -> float | None:
        labels = {"task": "translate", "model": "none", "outcome": outcome}
        return self.metrics.registry.get_sample_value("regard_requests_total", labels)


@pytest.fixture
def backend() -> FakeBackend:
    return FakeBackend()


def call(app: ASGIApp, backend: FakeBackend) -> list[tuple[str, int]]:
    """Calls an app; returns each message that is sent, with the number of leases released then."""
    sent: list[tuple[str, int]] = []
    settings, requests = Settings.model_validate({}), OpenRequests()
    services: Any = SimpleNamespace(
        settings=settings, backend=SimpleNamespace(recorder=backend.metrics), requests=requests
    )
    routes, drain = Routes(DIALECTS), Drain(requests.count, 0, 1)
    routes.table = {key: each._replace(endpoint=None) for key, each in routes.table.items()}
    middleware = RequestMiddleware(app, services, routes, drain, LoopLoad())

    async def receive() -> Message:
        return {"type": "http.request"}

    async def send(message: Message) -> None:
        await asyncio.sleep(0)  # another task could run here
        sent.append((message["type"], backend.num_released))

    async def run() -> None:
        scope = {"type": "http", "path": "/translate", "query_string": b"", "method": "POST"}
        await middleware({**scope, "headers": []}, receive, send)

    asyncio.run(run())
    return sent


async def admit(scope: Scope, backend: FakeBackend) -> None:
    context: RequestContext = scope["state"]["context"]
    await context.admit(cast("Backend", backend), 5, num_chars=0)


def test_fault_after_the_response_has_begun_sends_no_second_one(
    backend: FakeBackend, caplog: pytest.LogCaptureFixture
) -> None:
    async def app(_scope: Scope, _receive: Receive, send: Send) -> None:
        await send({**START, "headers": []})
        raise RuntimeError

    assert call(app, backend) == [("http.response.start", 0)]
    assert (backend.count("error"), backend.count("ok")) == (1, 0)
    assert "RuntimeError" in caplog.text


def test_lease_is_held_until_the_reply_has_been_written(backend: FakeBackend) -> None:
    """A request that waits for a slow client to read its reply counts in the admission."""

    async def app(scope: Scope, _receive: Receive, send: Send) -> None:
        await admit(scope, backend)
        await send({**START, "headers": []})
        await send({"type": "http.response.body", "body": b"a", "more_body": True})
        await send({"type": "http.response.body", "body": b"b"})

    start, body = ("http.response.start", 0), ("http.response.body", 0)
    assert call(app, backend) == [start, body, body]
    assert backend.num_released == 1


@pytest.mark.parametrize("error", [RuntimeError, ClientDisconnect, asyncio.CancelledError])
def test_lease_of_a_failed_request_is_released_after_its_reply(
    backend: FakeBackend, error: type[BaseException]
) -> None:
    async def app(scope: Scope, _receive: Receive, _send: Send) -> None:
        await admit(scope, backend)
        raise error

    if error is asyncio.CancelledError:  # the cancellation goes on
        with pytest.raises(asyncio.CancelledError):
            call(app, backend)
        assert (backend.count("unavailable"), backend.count("ok")) == (1, 0)
    else:
        reply = [("http.response.start", 0), ("http.response.body", 0)]
        assert call(app, backend) == (reply if error is RuntimeError else [])
    assert backend.num_released == 1
