import asyncio
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import pytest
from starlette.requests import ClientDisconnect, Request
from starlette.types import Message

from service.api.context import HttpContext
from service.api.request.reading import unless_disconnected
from tests.unit.scheduling import settle


class Client:
    """The other end of a request; `go` closes it."""

    def __init__(self) -> None:
        self.messages: asyncio.Queue[Message] = asyncio.Queue()
        scope = {"type": "http", "state": {"context": HttpContext("id")}}
        self.request = Request(scope, self.messages.get)

    def go(self) -> None:
        self.messages.put_nowait({"type": "http.disconnect"})


@asynccontextmanager
async def watched() -> AsyncIterator[Client]:
    """Yields a client to a test that leaves no task in the event loop."""
    yield Client()
    await settle()
    assert asyncio.all_tasks() == {asyncio.current_task()}


@pytest.fixture
def client() -> AbstractAsyncContextManager[Client]:
    return watched()


async def work(ended: list[str]) -> str:
    """Waits without end, and tells how it ended."""
    try:
        await asyncio.Event().wait()
    except asyncio.CancelledError:
        await asyncio.sleep(0)  # as one that has to tidy up
        ended.append("cancelled")
        raise
    return "done"


@pytest.mark.parametrize("comes_first", [None, {"type": "http.request", "body": b""}])
async def test_work_ends_before_its_caller_is_told_that_the_client_has_gone(
    comes_first: Message | None, client: Client
) -> None:
    ended: list[str] = []
    if comes_first is not None:
        client.messages.put_nowait(comes_first)
    waiting = asyncio.create_task(unless_disconnected(client.request, work(ended)))
    await settle()
    assert not waiting.done()
    client.go()
    with pytest.raises(ClientDisconnect):
        await waiting
    assert ended == ["cancelled"]


@pytest.mark.parametrize("num_turns", range(6))
async def test_client_that_goes_as_the_work_ends_ends_nothing_else(
    num_turns: int, client: Client
) -> None:
    """Whoever has the result already is not cancelled for it when it goes on."""

    async def answer() -> str:
        client.go()
        for _ in range(num_turns):
            await asyncio.sleep(0)
        return "done"

    try:
        assert await unless_disconnected(client.request, answer()) == "done"
    except ClientDisconnect:
        assert num_turns > 0
    await settle()
    task = asyncio.current_task()
    assert task is not None
    assert not task.cancelling()


async def test_end_of_the_caller_goes_before_that_of_the_client(client: Client) -> None:
    waiting = asyncio.create_task(unless_disconnected(client.request, work([])))
    await settle()
    client.go()
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
