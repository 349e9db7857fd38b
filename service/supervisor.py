"""Keeps the device workers alive: starts them, listens to them, starts them again."""

import asyncio
import contextlib
import logging
import os
import socket
from collections.abc import Awaitable, Callable

from service import channel, processes
from service.channel import Outbox
from service.messages import (
    LoadFailed,
    Ready,
    Report,
    ResidentEmbedder,
    ResidentModel,
    Stop,
    ToWorker,
    WorkerConfig,
)
from service.metrics import Metrics
from service.processes import Connected, Keeper, Process, start_module
from service.scheduler import Scheduler

logger = logging.getLogger("regard.supervisor")

WATCHES = 10
"""How often a worker is looked at in the time after which it is taken to hang."""

HUGE_PAGES = "glibc.malloc.hugetlb=1"
"""Has glibc ask for transparent huge pages, 2 MiB in place of 4 KiB: a worker reads weights from
all over its memory, and finds a page in less time. Other C libraries do not look at it."""

StartWorker = Callable[[socket.socket, int], Awaitable[Process]]


async def start_process(connection: socket.socket, threads: int) -> Process:
    """A worker in a new interpreter, which inherits its end of the socket pair."""
    tunables = os.environ.get("GLIBC_TUNABLES", HUGE_PAGES)
    environment = {"OMP_NUM_THREADS": str(threads), "GLIBC_TUNABLES": tunables}
    return await start_module("service.worker", [connection.fileno()], environment)


class WorkerLink:
    """The server's end of the channel to one worker."""

    def __init__(self, name: str, writer: asyncio.StreamWriter) -> None:
        self.name = name
        self.writer = writer
        self.outbox = Outbox(writer)
        self.num_heard = 0  # messages

    def send(self, message: ToWorker) -> None:
        """Sends without waiting; a worker that is gone is noticed by who reads from it."""
        self.outbox.send(message)


class Supervisor:
    """Runs as many workers as asked for, until `stop`.

    Args:
        config: What each worker loads.
        count: How many.
        scheduler: Who gives them work.
        metrics: Where restarts and models are counted.
        start_worker: How a worker comes to be; a test may start a thread.
        on_failure: Called with a message when a model cannot be loaded at all.
        timeout_seconds: One that has work and says nothing for so long is ended, and started again.
    """

    def __init__(
        self,
        config: WorkerConfig,
        count: int,
        scheduler: Scheduler,
        metrics: Metrics,
        start_worker: StartWorker = start_process,
        on_failure: Callable[[str], None] = logger.critical,
        timeout_seconds: float = 60.0,
    ) -> None:
        self.config = config
        self.count = count
        self.scheduler = scheduler
        self.metrics = metrics
        self.start_worker = start_worker
        self.on_failure = on_failure
        self.timeout_seconds = timeout_seconds
        self.ready: dict[str, Ready] = {}
        self.failure: str | None = None
        self.is_stopping = False
        self.keeper = Keeper(self._run, metrics.engine_restarts.inc)
        self.links: set[WorkerLink] = set()

    @property
    def is_ready(self) -> bool:
        """Whether at least one worker takes work."""
        return bool(self.ready) and not self.is_stopping

    def start(self) -> None:
        """Begins to start the workers; they load while the server answers."""
        self.keeper.start(f"worker-{index}" for index in range(self.count))

    async def stop(self) -> None:
        """Ends all workers; what they hold is lost, so that the server drains first."""
        self.is_stopping = True
        self.keeper.stopping.set()
        self.metrics.ready.set(0)
        for link in self.links:
            if link.name in self.ready:
                link.send(Stop())
            else:  # it would hear of it only when its models are loaded
                link.writer.close()
        await self.keeper.wait(processes.STOP_SECONDS)

    async def _run(self, name: str) -> None:
        started = await Connected.start(self._start)
        link = WorkerLink(name, started.writer)
        self.links.add(link)
        watching = asyncio.create_task(self._watch(link, started.process))
        try:
            link.send(self.config)
            if self.is_stopping:
                started.writer.close()
            async for message in channel.messages(started.reader):
                self._receive(link, message)
        finally:
            watching.cancel()
            self.links.discard(link)
            is_loading = self.ready.pop(name, None) is None
            self.metrics.ready.set(self.is_ready)
            self.scheduler.worker_lost(link)
            await started.end(0 if self.is_stopping and is_loading else processes.STOP_SECONDS)

    async def _watch(self, link: WorkerLink, process: Process) -> None:
        """Ends a worker that hangs: one that works sends figures several times a second.

        Looks are counted, not seconds, so that a server that was itself stopped for a while blames
        nobody. Only a message starts the count anew: requests that time out, and so leave the
        worker without work, must not hide that it hangs.
        """
        num_silent, num_heard = 0, 0
        while num_silent <= WATCHES:
            await asyncio.sleep(self.timeout_seconds / WATCHES)
            if link.num_heard != num_heard:
                num_silent, num_heard = 0, link.num_heard
            elif self.scheduler.has_work(link):
                num_silent += 1
        logger.error("%s has said nothing for %.3g s", link.name, self.timeout_seconds)
        with contextlib.suppress(ProcessLookupError):  # it has ended just now
            process.kill()

    async def _start(self, connection: socket.socket) -> Process:
        return await self.start_worker(connection, self.config.threads)

    def _receive(self, link: WorkerLink, message: object) -> None:
        link.num_heard += 1
        if isinstance(message, Report):
            self.scheduler.report(link, message)
        elif isinstance(message, Ready):
            self._welcome(link, message)
        elif isinstance(message, LoadFailed):
            if self.failure is None:
                self.failure = message.message
                self.keeper.stopping.set()
                self.on_failure(message.message)

    def _welcome(self, link: WorkerLink, ready: Ready) -> None:
        self.ready[link.name] = ready
        languages = {model.name: (model.source, model.target) for model in self.config.models}
        revisions = {model.name: model.revision for model in self.config.models}
        revisions |= {embedder.name: embedder.revision for embedder in self.config.embedders}
        for model in residents(ready):
            self.metrics.model_load.labels(model.name).set(self._slowest_load(model.name))
            self.metrics.model_info.labels(
                model.name,
                *languages.get(model.name, ("", "")),
                model.device,
                model.dtype,
                revisions[model.name],
            ).set(1)
            logger.info(
                "%s: %s on %s in %s, ready after %.1f s",
                link.name, model.name, model.device, model.dtype, model.load_seconds,
            )  # fmt: skip
        self.scheduler.worker_ready(link, {model.name: model.max_rows for model in ready.models})
        self.metrics.ready.set(self.is_ready)

    def _slowest_load(self, name: str) -> float:
        models = [model for ready in self.ready.values() for model in residents(ready)]
        return max(model.load_seconds for model in models if model.name == name)


def residents(ready: Ready) -> list[ResidentModel | ResidentEmbedder]:
    """All that a worker has loaded."""
    return [*ready.models, *ready.embedders]
