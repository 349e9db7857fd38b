"""Keeps the device workers alive: starts them, listens to them, starts them again."""

import asyncio
import contextlib
import logging
import os
import socket
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Protocol

from service import channel
from service.messages import LoadFailed, Ready, Report, Stop, ToWorker, WorkerConfig
from service.metrics import Metrics
from service.scheduler import Scheduler

logger = logging.getLogger("regard.supervisor")

MAX_BACKOFF_SECONDS = 30.0
STOP_SECONDS = 5.0


class WorkerProcess(Protocol):
    """What the supervisor needs of a started worker."""

    async def wait(self) -> int:
        """Its exit status, once it has ended."""

    def kill(self) -> None:
        """Ends it now."""


StartWorker = Callable[[socket.socket, int], Awaitable[WorkerProcess]]


async def start_process(connection: socket.socket, threads: int) -> WorkerProcess:
    """A worker in a new interpreter, which inherits its end of the socket pair."""
    return await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "service.worker",
        str(connection.fileno()),
        pass_fds=[connection.fileno()],
        env={**os.environ, "OMP_NUM_THREADS": str(threads)},
    )


class WorkerLink:
    """The server's end of the channel to one worker."""

    def __init__(self, name: str, writer: asyncio.StreamWriter) -> None:
        self.name = name
        self.writer = writer

    def send(self, message: ToWorker) -> None:
        """Sends without waiting; a worker that is gone is noticed by who reads from it."""
        if not self.writer.is_closing():
            self.writer.write(channel.pack(message))


class Supervisor:
    """Runs as many workers as asked for, until `stop`.

    Args:
        config: What each worker loads.
        count: How many.
        scheduler: Who gives them work.
        metrics: Where restarts and models are counted.
        start_worker: How a worker comes to be; a test may start a thread.
        on_failure: Called with a message when a model cannot be loaded at all.
    """

    def __init__(
        self,
        config: WorkerConfig,
        count: int,
        scheduler: Scheduler,
        metrics: Metrics,
        start_worker: StartWorker = start_process,
        on_failure: Callable[[str], None] = logger.critical,
    ) -> None:
        self.config = config
        self.count = count
        self.scheduler = scheduler
        self.metrics = metrics
        self.start_worker = start_worker
        self.on_failure = on_failure
        self.ready: dict[str, Ready] = {}
        self.failure: str | None = None
        self.stopping = asyncio.Event()
        self.tasks: list[asyncio.Task[None]] = []
        self.links: set[WorkerLink] = set()

    @property
    def is_stopping(self) -> bool:
        """Whether the end has begun."""
        return self.stopping.is_set()

    @property
    def is_ready(self) -> bool:
        """Whether at least one worker takes work."""
        return bool(self.ready) and not self.is_stopping

    def start(self) -> None:
        """Begins to start the workers; they load while the server answers."""
        names = [f"worker-{index}" for index in range(self.count)]
        self.tasks = [asyncio.create_task(self._keep(name)) for name in names]

    async def stop(self) -> None:
        """Ends all workers; what they hold is lost, so that the server drains first."""
        self.stopping.set()
        self.metrics.ready.set(0)
        for link in self.links:
            if link.name in self.ready:
                link.send(Stop())
            else:  # it would hear of it only when its models are loaded
                link.writer.close()
        if not self.tasks:
            return
        _, late = await asyncio.wait(self.tasks, timeout=STOP_SECONDS)
        for task in late:  # its worker hangs
            task.cancel()
        await asyncio.gather(*late, return_exceptions=True)

    async def _keep(self, name: str) -> None:
        failures = 0
        while True:
            started = time.monotonic()
            try:
                await self._run(name)
            except Exception:  # such as no memory for another process: it may pass
                logger.exception("%s could not be kept", name)
            if self.is_stopping or self.failure is not None:
                return
            self.metrics.engine_restarts.inc()
            failures = 1 if time.monotonic() - started > MAX_BACKOFF_SECONDS else failures + 1
            backoff = min(MAX_BACKOFF_SECONDS, 0.1 * 2 ** min(failures, 10))
            logger.error("%s ended; it starts again in %.1f s", name, backoff)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self.stopping.wait(), backoff)
                return

    async def _run(self, name: str) -> None:
        ours, theirs = socket.socketpair()
        with contextlib.ExitStack() as opened:
            opened.enter_context(ours)
            with theirs:
                process = await self.start_worker(theirs, self.config.threads)
            reader, writer = await asyncio.open_connection(sock=ours)
            opened.pop_all()  # the socket is the writer's now
        link = WorkerLink(name, writer)
        self.links.add(link)
        try:
            link.send(self.config)
            if self.is_stopping:
                writer.close()
            while True:
                self._receive(link, await channel.read(reader))
        except (asyncio.IncompleteReadError, OSError):
            logger.debug("%s closed its channel", name)
        finally:
            self.links.discard(link)
            is_loading = self.ready.pop(name, None) is None
            self.metrics.ready.set(self.is_ready)
            self.scheduler.worker_lost(link)
            writer.close()
            await self._end(process, 0 if self.is_stopping and is_loading else STOP_SECONDS)

    async def _end(self, process: WorkerProcess, seconds: float) -> None:
        try:
            await asyncio.wait_for(process.wait(), seconds)
        except TimeoutError:
            with contextlib.suppress(ProcessLookupError):  # it has ended just now
                process.kill()
            await process.wait()

    def _receive(self, link: WorkerLink, message: object) -> None:
        if isinstance(message, Report):
            self.scheduler.report(link, message)
        elif isinstance(message, Ready):
            self._welcome(link, message)
        elif isinstance(message, LoadFailed):
            if self.failure is None:
                self.failure = message.message
                self.on_failure(message.message)

    def _welcome(self, link: WorkerLink, ready: Ready) -> None:
        self.ready[link.name] = ready
        files = {model.name: model for model in self.config.models}
        for model in ready.models:
            self.metrics.model_load.labels(model.name).set(self._slowest_load(model.name))
            self.metrics.model_info.labels(
                model.name,
                files[model.name].source,
                files[model.name].target,
                model.device,
                model.dtype,
                files[model.name].revision,
            ).set(1)
            logger.info(
                "%s: %s on %s in %s, ready after %.1f s",
                link.name, model.name, model.device, model.dtype, model.load_seconds,
            )  # fmt: skip
        self.scheduler.worker_ready(link, {model.name: model.max_rows for model in ready.models})
        self.metrics.ready.set(self.is_ready)

    def _slowest_load(self, name: str) -> float:
        models = [model for ready in self.ready.values() for model in ready.models]
        return max(model.load_seconds for model in models if model.name == name)


def available_cores() -> int:
    """Whole cores that this process may use: its affinity, less where a cgroup allows fewer.

    `os.cpu_count()` tells of the machine; a container with a quota of two cores on it would
    start a worker for each core of the machine and be throttled to a crawl.
    """
    cores = len(os.sched_getaffinity(0))
    try:
        quota, period = Path("/sys/fs/cgroup/cpu.max").read_text(encoding="ascii").split()
        return min(cores, max(1, int(quota) // int(period)))
    except (OSError, ValueError):  # no cgroup v2, or no limit ("max")
        return max(1, cores)
