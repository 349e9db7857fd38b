"""Processes that the server starts and keeps: each on its own end of a socket pair."""

import asyncio
import contextlib
import logging
import os
import socket
import sys
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Protocol

logger = logging.getLogger("regard.processes")

MAX_BACKOFF_SECONDS = 30.0
STOP_SECONDS = 5.0

Run = Callable[[str], Awaitable[None]]


class Process(Protocol):
    """What is needed of a process that was started."""

    async def wait(self) -> int:
        """Its exit status, once it has ended."""

    def kill(self) -> None:
        """Ends it now."""


async def start_module(
    module: str, descriptors: Sequence[int], environment: Mapping[str, str] | None = None
) -> Process:
    """A module in a new interpreter, which inherits descriptors and gets them as arguments.

    Nothing is forked: a fork would take along the locks that other threads hold just then.
    """
    return await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        module,
        *map(str, descriptors),
        pass_fds=descriptors,
        env={**os.environ, **(environment or {})},
    )


class Connected:
    """A process, with the channel to it."""

    def __init__(
        self, process: Process, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self.process = process
        self.reader = reader
        self.writer = writer

    @classmethod
    async def start(cls, start: Callable[[socket.socket], Awaitable[Process]]) -> "Connected":
        """Starts a process with the one end of a socket pair, and keeps the other."""
        ours, theirs = socket.socketpair()
        with contextlib.ExitStack() as opened:
            opened.enter_context(ours)
            with theirs:
                process = await start(theirs)
            reader, writer = await asyncio.open_connection(sock=ours)
            opened.pop_all()  # the socket is the writer's now
        return cls(process, reader, writer)

    async def end(self, seconds: float) -> None:
        """Closes the channel, gives the process so long to end, then ends it."""
        self.writer.close()
        try:
            await asyncio.wait_for(self.process.wait(), seconds)
        except TimeoutError:
            with contextlib.suppress(ProcessLookupError):  # it has ended just now
                self.process.kill()
            await self.process.wait()


class Keeper:
    """Runs processes, each again after it has ended, until it is stopped.

    Args:
        run: Starts the process of that name and returns when it has ended.
        restarted: Called whenever one has to be started again.
    """

    def __init__(self, run: Run, restarted: Callable[[], None]) -> None:
        self.run = run
        self.restarted = restarted
        self.stopping = asyncio.Event()
        self.tasks: list[asyncio.Task[None]] = []

    @property
    def is_stopping(self) -> bool:
        """Whether nothing is started again any more."""
        return self.stopping.is_set()

    def start(self, names: Iterable[str]) -> None:
        """Begins to start them."""
        self.tasks = [asyncio.create_task(self._keep(name)) for name in names]

    async def wait(self, seconds: float) -> None:
        """Waits for all of them to end, and ends those that have not done so in time."""
        if not self.tasks:
            return
        _, late = await asyncio.wait(self.tasks, timeout=seconds)
        for task in late:
            task.cancel()
        await asyncio.gather(*late, return_exceptions=True)

    async def _keep(self, name: str) -> None:
        failures = 0
        while True:
            started = time.monotonic()
            try:
                await self.run(name)
            except Exception:  # such as no memory for another process: it may pass
                logger.exception("%s could not be kept", name)
            if self.is_stopping:
                return
            self.restarted()
            failures = 1 if time.monotonic() - started > MAX_BACKOFF_SECONDS else failures + 1
            backoff = min(MAX_BACKOFF_SECONDS, 0.1 * 2 ** min(failures, 10))
            logger.error("%s ended; it starts again in %.1f s", name, backoff)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self.stopping.wait(), backoff)
                return
