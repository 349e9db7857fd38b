"""Both ends of the channel between an HTTP worker and the main process, in one event loop.

The core's workers only record items, and a test finishes them: the computation is tested elsewhere.
"""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from service.core import Core
from service.http_workers.main_process import HttpWorkerLink
from service.http_workers.messages import FromHttpWorker
from service.http_workers.remote_backend import RemoteBackend
from service.ipc.channel import Inbox
from service.items import Result, WorkItem
from service.tasks.backend import Lease
from tests.unit.scheduling import FakeWorker, assert_idle, core_of, deadline, make_scheduler


class Ends:
    """Both ends of a channel.

    Attributes:
        backend: The end of the HTTP worker.
        link: The end of the main process.
        core: Computes the submissions.
        worker: The only worker of the core.
        messages: All messages that the main process has received.
        is_closed: Whether the test has ended the main process.
    """

    is_closed = False

    def __init__(self, writer: asyncio.WriteTransport) -> None:
        scheduler = make_scheduler()
        self.core: Core = core_of(scheduler)
        self.worker = FakeWorker(scheduler)
        self.link = HttpWorkerLink(self.core, writer, lambda: None)
        self.lost: list[bool] = []
        self.backend = RemoteBackend(
            on_drain=lambda _: self.lost.append(False), on_lost=lambda: self.lost.append(True)
        )
        self.messages: list[FromHttpWorker] = []

    def receive(self, messages: list[FromHttpWorker]) -> None:
        for message in messages:
            self.messages.append(message)
            self.link.receive(message)

    @property
    def kinds(self) -> list[type[FromHttpWorker]]:
        return [type(message) for message in self.messages]

    async def until_idle(self) -> None:
        """Waits until the main process holds nothing for the HTTP worker."""
        self.backend.outbox.flush()  # the end of a request is sent with later messages
        while self.link.leases or self.link.tasks:
            await asyncio.sleep(0)
        assert (self.core.admission.requests, self.core.admission.tokens) == (0, 0)
        assert not self.worker.held
        assert_idle(self.core.scheduler)

    async def until_held(self, count: int) -> None:
        while len(self.worker.held) < count:
            await asyncio.sleep(0)

    async def until_received(self, *kinds: type[FromHttpWorker]) -> None:
        """Waits until the main process has received these messages, and no other ones."""
        while len(self.kinds) < len(kinds):
            await asyncio.sleep(0)
        assert self.kinds == [*kinds]


@asynccontextmanager
async def connected() -> AsyncIterator[Ends]:
    """Yields both ends of a channel in one event loop, which a test leaves idle or closed."""
    ours, theirs = socket.socketpair()
    loop = asyncio.get_running_loop()
    writer, inbox = await loop.create_connection(Inbox, sock=theirs)
    ends = Ends(writer)
    listening = asyncio.create_task(inbox.pass_to(ends.receive))
    async with ends.backend.connected(ours):
        yield ends
        if not ends.is_closed:
            await ends.until_idle()
    await listening
    writer.close()
    assert not ends.backend.waiting
    assert not ends.backend.streams


async def compute(lease: Lease, items: list[WorkItem]) -> list[Result]:
    """Submits items of a request and returns the results; then the request ends."""
    try:
        return await lease.submit(items, deadline()).in_order()
    finally:
        lease.release()


async def begin(
    ends: Ends, items: list[WorkItem], tokens: int = 9, at_once: bool = False
) -> "asyncio.Task[list[Result]]":
    """Begins a request, whose items are at the worker when this returns."""
    lease = await ends.backend.admit(tokens, at_once)
    held = len(ends.worker.held)
    task = asyncio.create_task(compute(lease, items))
    await ends.until_held(held + len(items))
    return task
