"""The supervisor keeps the device workers alive: it starts them, reads from them, restarts them."""

import asyncio
import contextlib
import logging
import os
import socket
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import replace
from typing import Protocol

from service.ipc import channel, processes
from service.ipc.channel import Outbox
from service.ipc.processes import ChildProcess, Process, ProcessSupervisor, start_module
from service.metrics.definitions import Metrics
from service.workers.messages import (
    Loaded,
    LoadFailed,
    Ready,
    Report,
    Resident,
    Stop,
    ToWorker,
    Unload,
    Unloaded,
    WorkerConfig,
)
from service.workers.model_set import AnyFiles

logger = logging.getLogger("regard.supervisor")

WATCHES = 10
"""Number of checks on a worker within `timeout_seconds` of the Supervisor.

A worker is restarted when more than this number of checks have found work, but no new message.
"""

HUGE_PAGES = "glibc.malloc.hugetlb=1"
"""Value of GLIBC_TUNABLES that makes glibc request memory pages of 2 MiB, not of 4 KiB. A worker
reads weights in all parts of its memory. With fewer pages, the processor translates fewer
addresses. Other C libraries ignore this variable."""

StartWorker = Callable[[socket.socket, int], Awaitable[Process]]


async def start_process(connection: socket.socket, threads: int) -> Process:
    """Starts a worker in a new interpreter; the process inherits `connection`."""
    tunables = os.environ.get("GLIBC_TUNABLES", HUGE_PAGES)
    environment = {"OMP_NUM_THREADS": str(threads), "GLIBC_TUNABLES": tunables}
    return await start_module("service.workers.worker", [connection.fileno()], environment)


class WorkerEvents(Protocol):
    """The methods of the scheduler that the supervisor calls; a WorkerLink names the worker."""

    def add_model(self, model: str, kinds: Iterable[str]) -> None:
        """Begins to accept work items for a model; `kinds` are the task kinds that it computes."""

    def remove_model(self, model: str) -> None:
        """Accepts no more items for a model, and fails its remaining items."""

    def worker_ready(
        self, link: "WorkerLink", max_rows: Mapping[str, int], missing: Iterable[str] = ()
    ) -> None:
        """Begins to send items to a worker, which still has to load the models in `missing`."""

    def worker_loaded(self, link: "WorkerLink", model: str, max_rows: int) -> None:
        """Records one more model of a worker."""

    def worker_lost(self, link: "WorkerLink") -> None:
        """Queues the items of a dead worker again; items with too many attempts fail."""

    def has_work(self, link: "WorkerLink") -> bool:
        """Returns whether a worker holds any item."""

    def report(self, link: "WorkerLink", report: Report) -> None:
        """Delivers the results of the items that a worker has finished."""


class WorkerLostError(Exception):
    """A worker ended before it answered a Load or an Unload."""


class LoadRefusedError(Exception):
    """A worker cannot load a model.

    Args:
        failed: The worker's message.
    """

    def __init__(self, failed: LoadFailed) -> None:
        super().__init__(failed.message)
        self.failed = failed


class WorkerLink:
    """The server's end of the channel to one worker.

    Args:
        name: Name of the worker.
        writer: Stream to the worker.
        config: First message to the worker.
    """

    def __init__(self, name: str, writer: asyncio.StreamWriter, config: WorkerConfig) -> None:
        self.name = name
        self.writer = writer
        self.config = config
        self.outbox = Outbox(writer)
        self.num_heard = 0  # number of messages from the worker
        self.is_lost = False
        self.answers: dict[str, asyncio.Future[Loaded | LoadFailed | Unloaded]] = {}

    def send(self, message: ToWorker) -> None:
        """Sends a message without waiting. The message is lost if the worker is gone."""
        self.outbox.send(message)

    async def ask(self, model: str, message: ToWorker) -> Loaded | LoadFailed | Unloaded:
        """Sends a Load or an Unload, and returns the worker's answer.

        Raises:
            WorkerLostError: The worker is gone.
        """
        if self.is_lost:
            raise WorkerLostError(f"{self.name} has ended")
        future: asyncio.Future[Loaded | LoadFailed | Unloaded]
        future = self.answers[model] = asyncio.get_running_loop().create_future()
        self.send(message)
        try:
            return await future
        finally:
            self.answers.pop(model, None)

    def hear(self, model: str, answer: Loaded | LoadFailed | Unloaded) -> None:
        """Takes the worker's answer about a model."""
        future = self.answers.get(model)
        if future is not None and not future.done():
            future.set_result(answer)

    def lose(self) -> None:
        """Marks the worker as ended, and fails all calls of `ask` that wait for its answer."""
        self.is_lost = True
        for future in self.answers.values():
            if not future.done():
                future.set_exception(WorkerLostError(f"{self.name} ended"))


class Supervisor:
    """Runs a number of workers until `stop`.

    Args:
        config: Models and settings of each worker.
        count: Number of workers.
        scheduler: Gives work to the workers.
        metrics: Counts restarts and models.
        start_worker: Starts a worker; a test may start a thread.
        on_failure: Called with a message when a worker cannot load an initial model.
        timeout_seconds: A worker that holds work and sends nothing for this time is restarted.

    Attributes:
        on_lost_model: Called with the name of a model that was loaded while the server ran, when a
            restarted worker cannot load it.
    """

    def __init__(
        self,
        config: WorkerConfig,
        count: int,
        scheduler: WorkerEvents,
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
        self.ready: dict[str, dict[str, Resident]] = {}  # keys: worker name, then model name
        self.failure: str | None = None
        self.on_lost_model: Callable[[str], None] = lambda name: None
        self.initial = config.models.names  # the server ends if it cannot load one of these
        self.files = {files.name: files for files in config.models.files}
        self.is_stopping = False
        self.keeper = ProcessSupervisor(self._run, metrics.engine_restarts.inc)
        self.links: set[WorkerLink] = set()

    @property
    def is_ready(self) -> bool:
        """Whether at least one worker accepts work."""
        return bool(self.ready) and not self.is_stopping

    def start(self) -> None:
        """Begins to start the workers; the server answers requests while they load models."""
        self.keeper.start(f"worker-{index}" for index in range(self.count))

    async def stop(self) -> None:
        """Ends all workers. Their items are lost, so the server first finishes its requests."""
        self.is_stopping = True
        self.keeper.stopping.set()
        self.metrics.ready.set(0)
        for link in self.links:
            if link.name in self.ready:
                link.send(Stop())
            else:  # a worker reads a Stop only after it has loaded its models
                link.writer.close()
        await self.keeper.wait(processes.STOP_SECONDS)

    async def load(self, files: AnyFiles, placements: Mapping[str, tuple[str, str]]) -> None:
        """Loads one more model in one worker after the other.

        The other workers keep their speed during a load.

        Args:
            files: Files of the model.
            placements: Maps the folder of the model to its device and dtype; empty for the server's
                settings.

        Raises:
            LoadRefusedError: A worker cannot load the model; no worker has the model afterwards.
            WorkerLostError: A worker ended during its load; no worker has the model afterwards.
        """
        models = self.config.models.with_model(files).with_placements(placements)
        config = replace(self.config, models=models)
        self.files[files.name] = files
        try:
            while (link := self._next_to_load(files.name)) is not None:
                answer = await link.ask(files.name, config.load(files))
                if isinstance(answer, LoadFailed):
                    raise LoadRefusedError(answer)
            if files.name not in self._loaded():
                raise WorkerLostError("all workers ended")
        except BaseException:
            await self.unload(files.name)
            raise
        self.config = config

    async def unload(self, name: str) -> None:
        """Unloads a model in all workers, and waits until it is gone."""
        self.config = replace(self.config, models=self.config.models.without(name))
        self.initial.discard(name)
        self.files.pop(name, None)
        self.scheduler.remove_model(name)
        links = [link for link in self.links if link.name in self.ready]
        for link in links:
            self._forget(link, name)
        asked = [link.ask(name, Unload(name)) for link in links]
        await asyncio.gather(*asked, return_exceptions=True)  # a dead worker needs no unloading
        self.metrics.forget_model(name)

    def _next_to_load(self, name: str) -> WorkerLink | None:
        """Returns a ready worker that has not loaded the model; None if there is none."""
        for link in self.links:
            ready = self.ready.get(link.name)
            if ready is not None and name not in ready:
                return link
        return None

    def _loaded(self) -> set[str]:
        return {name for ready in self.ready.values() for name in ready}

    async def _run(self, name: str) -> None:
        started = await ChildProcess.start(self._start)
        self.metrics.processes.watch(name, started.process.pid)
        link = WorkerLink(name, started.writer, self.config)
        self.links.add(link)
        watching = asyncio.create_task(self._watch(link, started.process))
        try:
            link.send(link.config)
            if self.is_stopping:
                started.writer.close()
            async for message in channel.messages(started.reader):
                self._receive(link, message)
        finally:
            watching.cancel()
            self.metrics.processes.forget(name)
            self.links.discard(link)
            is_loading = self.ready.pop(name, None) is None
            self.metrics.ready.set(self.is_ready)
            self.scheduler.worker_lost(link)
            link.lose()
            await started.end(0 if self.is_stopping and is_loading else processes.STOP_SECONDS)

    async def _watch(self, link: WorkerLink, process: Process) -> None:
        """Kills a worker that hangs: it holds work, but sends nothing for `timeout_seconds`.

        A worker with work normally sends figures several times a second. This method counts checks,
        not seconds, because seconds also pass while the server itself is suspended. Only a message
        resets the count. A check that finds no work leaves the count unchanged. The requests of a
        hanging worker may have timed out, and the worker may get new work.
        """
        num_silent, num_heard = 0, 0
        while num_silent <= WATCHES:
            await asyncio.sleep(self.timeout_seconds / WATCHES)
            if link.num_heard != num_heard:
                num_silent, num_heard = 0, link.num_heard
            elif self.scheduler.has_work(link):
                num_silent += 1
        logger.error("%s has sent nothing for %.3g s", link.name, self.timeout_seconds)
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
        elif isinstance(message, Loaded):
            self._take(link, message)
        elif isinstance(message, Unloaded):
            link.hear(message.name, message)
        elif isinstance(message, LoadFailed):
            self._miss(link, message)

    def _miss(self, link: WorkerLink, failed: LoadFailed) -> None:
        """Handles a model that a worker cannot load.

        There are three cases. In the first, a Load waits for the worker's answer. In the second, a
        restarted worker cannot load a model that was loaded while the server ran. In the third, the
        model is one of the models with which the server started, so the server ends. None of the
        cases applies to a model that has been unloaded in the meantime. The next start of the
        worker does not load that model.
        """
        names = self.config.models.names
        if failed.name in link.answers:
            link.hear(failed.name, failed)
        elif failed.name in names - self.initial:
            logger.error("%s cannot load a model any more: %s", link.name, failed.message)
            self.on_lost_model(failed.name)
        elif failed.name in names and self.failure is None:
            self.failure = failed.message
            self.keeper.stopping.set()
            self.on_failure(failed.message)

    def _welcome(self, link: WorkerLink, ready: Ready) -> None:
        # Models may have changed since the worker was started: a name may stand for other files.
        kept = {id(files) for files in self.config.models.files}
        models = dict(ready.models)
        for files in link.config.models.files:
            if id(files) not in kept:
                del models[files.name]
                link.send(Unload(files.name))
        self.ready[link.name] = models
        for resident in models.values():
            self._describe(link, resident)
        rows = {name: model.max_rows for name, model in models.items() if model.max_rows}
        missing = [each for each in self.config.models.files if each.name not in models]
        self.scheduler.worker_ready(link, rows, {files.name for files in missing})
        for files in missing:
            link.send(self.config.load(files))
        self.metrics.ready.set(self.is_ready)

    def _take(self, link: WorkerLink, loaded: Loaded) -> None:
        """Records one more model of a worker."""
        resident = loaded.resident
        if resident.name not in self.files:  # unloaded in the meantime
            return
        self.ready[link.name][resident.name] = resident
        self._describe(link, resident)
        self.scheduler.worker_loaded(link, resident.name, resident.max_rows)
        link.hear(resident.name, loaded)

    def _forget(self, link: WorkerLink, name: str) -> None:
        """Removes a model from the record of the models that a worker has loaded."""
        self.ready[link.name].pop(name, None)

    def _describe(self, link: WorkerLink, resident: Resident) -> None:
        metrics, name, files = self.metrics, resident.name, self.files[resident.name]
        pair = (getattr(files, "source", ""), getattr(files, "target", ""))
        metrics.model_load.labels(name).set(self._slowest_load(name))
        metrics.model_memory.labels(link.name, name).set(resident.memory_bytes)
        labels = (name, *pair, resident.device, resident.dtype, files.revision)
        metrics.model_info.labels(*labels).set(1)
        logger.info(
            "%s: %s on %s in %s, ready after %.1f s",
            link.name, name, resident.device, resident.dtype, resident.load_seconds,
        )  # fmt: skip

    def _slowest_load(self, name: str) -> float:
        found = [models[name] for models in self.ready.values() if name in models]
        return max(model.load_seconds for model in found)
