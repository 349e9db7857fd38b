"""Child processes of the server: their start, channel, watchdog and restart after a failure."""

import asyncio
import contextlib
import logging
import os
import socket
import sys
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from service.ipc.channel import Inbox

logger = logging.getLogger("regard.processes")
watchdog_logger = logging.getLogger("regard.watchdog")

MAX_BACKOFF_SECONDS = 30.0
"""Longest pause before a process that keeps failing is started again."""

STOP_SECONDS = 5.0
"""Time after which a process that does not end by itself is killed."""

CHECKS = 10
"""Checks of a process in one timeout. The process is killed when more than this number of checks
have expected a message, but found none."""

RunProcess = Callable[[str], Awaitable[None]]


class Process(Protocol):
    @property
    def pid(self) -> int: ...

    async def wait(self) -> int: ...

    def kill(self) -> None: ...


def end_at_once(process: Process) -> None:
    with contextlib.suppress(ProcessLookupError):
        process.kill()


def module_command(module: str) -> list[str]:
    """Returns the command that runs a module in a new interpreter.

    `-m` puts the current folder on the import path, where a folder named `service` would hide this
    package. `-P` prevents this. If this process itself imports from the current folder, `-P` is
    left out, because the package may be in no other place.
    """
    imports_from_here = not {"", os.getcwd()}.isdisjoint(sys.path)
    return [sys.executable, *([] if imports_from_here else ["-P"]), "-m", module]


async def start_module(
    module: str, descriptors: Sequence[int], environment: Mapping[str, str] | None = None
) -> Process:
    """Starts a module in a new interpreter, as `python -m`.

    The child inherits the file descriptors, and their numbers are its arguments. The server does
    not fork, because a forked child inherits the locks that other threads hold.
    """
    return await asyncio.create_subprocess_exec(
        *module_command(module),
        *map(str, descriptors),
        pass_fds=descriptors,
        env={**os.environ, **(environment or {})},
    )


@dataclass(eq=False)
class ChildProcess:
    process: Process
    inbox: Inbox
    writer: asyncio.WriteTransport

    @classmethod
    async def start(cls, start: Callable[[socket.socket], Awaitable[Process]]) -> "ChildProcess":
        """Creates a socket pair, starts a process with one end and keeps the other end."""
        ours, theirs = socket.socketpair()
        with contextlib.ExitStack() as opened:
            opened.enter_context(ours)
            with theirs:
                process = await start(theirs)
            loop = asyncio.get_running_loop()
            writer, inbox = await loop.create_connection(Inbox, sock=ours)
            opened.pop_all()  # the writer owns the socket from here on
        return cls(process, inbox, writer)

    async def run(
        self,
        name: str,
        receive: Callable[[Any], None],
        timeout_seconds: Callable[[], float],
        expects_message: Callable[[], bool],
    ) -> None:
        """Passes all messages to a function, and kills the process if it hangs or is suspended.

        Checks are counted, not seconds, because seconds also pass while the server itself is
        suspended. Only a message resets the count.

        Args:
            timeout_seconds: Returns the timeout. A silent process is killed after it, never
                earlier.
            expects_message: Called before each check. It returns whether the process must send a
                message soon. It may also send a ping, which the process must answer.
        """
        num_silent = 0

        def hear(message: object) -> None:
            nonlocal num_silent
            num_silent = 0
            receive(message)

        async def watch() -> None:
            nonlocal num_silent
            while num_silent <= CHECKS:
                await asyncio.sleep(timeout_seconds() / CHECKS)
                num_silent += expects_message()
            text = "%s has sent nothing for more than %.3g s"
            watchdog_logger.error(text, name, timeout_seconds())
            end_at_once(self.process)

        watching = asyncio.create_task(watch())
        try:
            await self.inbox.pass_to(hear)
        finally:
            watching.cancel()

    async def end(self, seconds: float) -> None:
        self.writer.close()
        try:
            await asyncio.wait_for(self.process.wait(), seconds)
        except TimeoutError:
            end_at_once(self.process)
            await self.process.wait()
        except asyncio.CancelledError:  # the server ends and does not wait any longer
            end_at_once(self.process)
            raise


class ProcessSupervisor:
    """Keeps a set of named processes running until it is stopped.

    A process that ends is started again after a pause. The pause doubles each time up to
    MAX_BACKOFF_SECONDS, and is short again after the process has run for that long.
    """

    def __init__(self, run: RunProcess, restarted: Callable[[], None]) -> None:
        self.run = run
        self.restarted = restarted
        self.stopping = asyncio.Event()
        self.tasks: list[asyncio.Task[None]] = []

    @property
    def is_stopping(self) -> bool:
        return self.stopping.is_set()

    def start(self, names: Iterable[str]) -> None:
        self.tasks = [asyncio.create_task(self._keep(name)) for name in names]

    async def wait(self, seconds: float) -> None:
        """Waits for all processes to end; cancels the tasks of the others after some seconds."""
        if not self.tasks:
            return
        _, running = await asyncio.wait(self.tasks, timeout=seconds)
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)

    async def _keep(self, name: str) -> None:
        failures = 0
        while True:
            started = time.monotonic()
            try:
                await self.run(name)
            except Exception:  # the cause may be temporary, such as too little memory
                logger.exception("%s could not be run", name)
            if self.is_stopping:
                return
            self.restarted()
            failures = 1 if time.monotonic() - started > MAX_BACKOFF_SECONDS else failures + 1
            backoff = min(MAX_BACKOFF_SECONDS, 0.1 * 2 ** min(failures, 10))
            logger.error("%s ended; it is started again in %.1f s", name, backoff)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self.stopping.wait(), backoff)
                return
