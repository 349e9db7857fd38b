"""A front end's questions about work, from its backend to the main process' link, over a socket.

The core behind the link only remembers and echoes: what it does with work is tested elsewhere.
"""

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any, cast

import pytest
from service.items.orders import Inquiry, Sentence

from model.inspection.query import AttentionJob, AttentionKind, resolve_query
from model.sequence import DecodingOptions
from service.core import Core
from service.errors import InternalError, OverloadedError
from service.http_workers.http_worker import RemoteBackend
from service.http_workers.supervisor import FrontendLink
from service.ipc import channel
from service.scheduling.lanes import Shown
from tests.tiny import tiny_config

QUERY = resolve_query(tiny_config(), [AttentionKind.CROSS])
INQUIRIES = [Inquiry("en-pt", AttentionJob([n, 0], [7, 0], (QUERY,))) for n in (5, 6)]
SENTENCES = [Sentence("en-pt", [5, 0], DecodingOptions())]


class FakeCore:
    """Admits, and answers with what it was asked, once it may."""

    def __init__(self) -> None:
        self.events: list[Any] = []
        self.may_answer = asyncio.Event()
        self.may_answer.set()
        self.error: Exception | None = None

    @asynccontextmanager
    async def admit(self, tokens: int) -> AsyncIterator["FakeCore"]:
        if self.error is not None:
            raise self.error
        self.events.append(f"admitted {tokens}")
        try:
            yield self
        finally:
            self.events.append("left")

    async def inspect(self, inquiries: Sequence[Inquiry], deadline: float) -> list[Shown]:
        self.events.append(f"inspects until {deadline}")
        await self.may_answer.wait()
        return [Shown([each.job], 0.25, 0.5) for each in inquiries]

    async def run(
        self, sentences: Sequence[Sentence], _is_bulk: bool, _deadline: float
    ) -> list[Sentence]:
        self.events.append("runs")
        return [*sentences]


Test = Callable[[RemoteBackend, FakeCore, FrontendLink], Awaitable[None]]


def run(test: Test) -> None:
    """Runs a test with both ends of a channel in one loop."""

    async def connected() -> None:
        ours, theirs = socket.socketpair()
        core = FakeCore()
        reader, writer = await asyncio.open_connection(sock=theirs)
        link = FrontendLink(cast("Core", core), writer, lambda: None)

        async def listen() -> None:
            async for messages in channel.messages(reader):
                for message in messages:
                    link.receive(message)

        listening = asyncio.create_task(listen())
        backend = RemoteBackend(on_end=lambda _is_lost: None)
        async with backend.connected(ours):
            await test(backend, core, link)
        await listening
        writer.close()
        assert not link.tasks
        assert not link.orders
        assert not backend.waiting

    asyncio.run(asyncio.wait_for(connected(), 60))


@pytest.mark.parametrize("at_once", [False, True])
def test_inquiries_are_asked_with_their_place_or_after_it(at_once: bool) -> None:
    async def test(backend: RemoteBackend, core: FakeCore, _link: FrontendLink) -> None:
        async with backend.admit(9, at_once) as place:
            assert core.events == (["admitted 9"] if at_once else [])
            shown = await place.inspect(INQUIRIES, 12.5)
        assert [each.results for each in shown] == [[each.job] for each in INQUIRIES]
        assert (shown[0].queue_seconds, shown[0].device_seconds) == (0.25, 0.5)
        assert core.events == ["admitted 9", "inspects until 12.5", "left"]

    run(test)


def test_questions_of_both_kinds_keep_apart() -> None:
    async def test(backend: RemoteBackend, core: FakeCore, _link: FrontendLink) -> None:
        async def translate() -> object:
            async with backend.admit(1, at_once=True) as place:
                return await place.run(SENTENCES, False, 1.0)

        async def show() -> object:
            async with backend.admit(1, at_once=True) as place:
                return len(await place.inspect(INQUIRIES, 1.0))

        asked = [ask() for ask in (translate, show) for _ in range(3)]
        assert await asyncio.gather(*asked) == [SENTENCES] * 3 + [2] * 3
        assert core.events.count("left") == 6

    run(test)


def test_refusal_reaches_who_asked() -> None:
    async def test(backend: RemoteBackend, core: FakeCore, _link: FrontendLink) -> None:
        core.error = OverloadedError("full", 3, "requests")
        for at_once in (False, True):
            with pytest.raises(OverloadedError, match="full") as refused:
                async with backend.admit(9, at_once) as place:
                    await place.inspect(INQUIRIES, 1.0)
            assert refused.value.retry_after_seconds == 3

    run(test)


@pytest.mark.parametrize("at_once", [False, True])
def test_question_nobody_waits_for_any_more_is_cancelled(at_once: bool) -> None:
    async def test(backend: RemoteBackend, core: FakeCore, link: FrontendLink) -> None:
        core.may_answer.clear()

        async def show() -> None:
            async with backend.admit(9, at_once) as place:
                await place.inspect(INQUIRIES, 1.0)

        task = asyncio.create_task(show())
        while "inspects until 1.0" not in core.events:
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        while link.tasks:
            await asyncio.sleep(0)
        assert core.events[-1] == "left"

    run(test)


def test_place_that_is_not_used_is_given_back() -> None:
    async def test(backend: RemoteBackend, core: FakeCore, link: FrontendLink) -> None:
        async with backend.admit(9, at_once=True):
            assert core.events == ["admitted 9"]
        while link.tasks:
            await asyncio.sleep(0)
        assert core.events == ["admitted 9", "left"]

    run(test)


def test_fault_is_logged_without_what_it_quotes(caplog: pytest.LogCaptureFixture) -> None:
    async def test(backend: RemoteBackend, core: FakeCore, _link: FrontendLink) -> None:
        core.error = ValueError("a secret text")
        with pytest.raises(InternalError, match="main process"):
            async with backend.admit(9, at_once=True):
                pass

    run(test)
    assert "ValueError" in caplog.text
    assert "in admit" in caplog.text
    assert "secret" not in caplog.text
