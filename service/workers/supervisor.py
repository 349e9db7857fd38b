"""Keeps the device workers alive: starts them, listens to them, starts them again."""

import asyncio
import contextlib
import logging
import os
import socket
from collections.abc import Awaitable, Callable, Mapping

from model.checkpoints.families.sentence_transformers import EmbeddingFiles
from model.checkpoints.load import ModelFiles
from service.ipc import channel, processes
from service.ipc.channel import Outbox
from service.ipc.processes import ChildProcess, Process, ProcessSupervisor, start_module
from service.metrics.definitions import Metrics
from service.scheduling.scheduler import Scheduler
from service.workers.messages import (
    Loaded,
    LoadFailed,
    Ready,
    Report,
    Resident,
    ResidentModel,
    Stop,
    ToWorker,
    Unload,
    Unloaded,
    WorkerConfig,
)

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
    return await start_module("service.workers.worker", [connection.fileno()], environment)


class WorkerLostError(Exception):
    """A worker ended before it had answered."""


class LoadRefusedError(Exception):
    """A worker cannot load a model.

    Args:
        failed: What it says.
    """

    def __init__(self, failed: LoadFailed) -> None:
        super().__init__(failed.message)
        self.failed = failed


class WorkerLink:
    """The server's end of the channel to one worker.

    Args:
        name: The worker's.
        writer: To it.
        config: With which it starts.
    """

    def __init__(self, name: str, writer: asyncio.StreamWriter, config: WorkerConfig) -> None:
        self.name = name
        self.writer = writer
        self.config = config
        self.outbox = Outbox(writer)
        self.num_heard = 0  # messages
        self.is_lost = False
        self.answers: dict[str, asyncio.Future[Loaded | LoadFailed | Unloaded]] = {}

    def send(self, message: ToWorker) -> None:
        """Sends without waiting; a worker that is gone is noticed by who reads from it."""
        self.outbox.send(message)

    async def ask(self, model: str, message: ToWorker) -> Loaded | LoadFailed | Unloaded:
        """Sends what has a worker change a model; gives what comes of it.

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
        """The worker has answered."""
        future = self.answers.get(model)
        if future is not None and not future.done():
            future.set_result(answer)

    def lose(self) -> None:
        """The worker is gone."""
        self.is_lost = True
        for future in self.answers.values():
            if not future.done():
                future.set_exception(WorkerLostError(f"{self.name} ended"))


class Supervisor:
    """Runs as many workers as asked for, until `stop`.

    Args:
        config: What each worker loads.
        count: How many.
        scheduler: Who gives them work.
        metrics: Where restarts and models are counted.
        start_worker: How a worker comes to be; a test may start a thread.
        on_failure: Called with a message when a model cannot be loaded at all.
        on_lost_model: Called with the name of one that was loaded while the server ran, when a
            worker that was started again cannot load it any more.
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
        self.on_lost_model: Callable[[str], None] = lambda name: None
        self.initial = config.names  # without these the server would not be what was asked for
        self.files = {files.name: files for files in config.files}
        self.is_stopping = False
        self.keeper = ProcessSupervisor(self._run, metrics.engine_restarts.inc)
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

    async def load(
        self,
        files: ModelFiles | EmbeddingFiles,
        placements: Mapping[str, tuple[str, str]],
    ) -> None:
        """Has all workers load one more model, one after the other: the others keep their speed.

        Args:
            files: Of the model.
            placements: Device and dtype by folder, where it has some of its own.

        Raises:
            LoadRefusedError: A worker cannot; none of them has it then.
            WorkerLostError: A worker ended while it loaded; likewise.
        """
        config = self.config.plus(files, placements)
        self.files[files.name] = files
        try:
            while (link := self._lacking(files.name)) is not None:
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
        """Has all workers forget a model; returns when they have."""
        self.config = self.config.without(name)
        self.initial.discard(name)
        self.files.pop(name, None)
        self.scheduler.remove_model(name)
        links = [link for link in self.links if link.name in self.ready]
        for link in links:
            self._forget(link, name)
        asked = [link.ask(name, Unload(name)) for link in links]
        await asyncio.gather(*asked, return_exceptions=True)  # who has ended has forgotten
        self.metrics.forget_model(name)

    def _lacking(self, name: str) -> WorkerLink | None:
        """A worker that works, and has not loaded a model."""
        for link in self.links:
            ready = self.ready.get(link.name)
            if ready is not None and name not in ready.names:
                return link
        return None

    def _loaded(self) -> set[str]:
        return {name for ready in self.ready.values() for name in ready.names}

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
        elif isinstance(message, Loaded):
            self._take(link, message)
        elif isinstance(message, Unloaded):
            link.hear(message.name, message)
        elif isinstance(message, LoadFailed):
            self._miss(link, message)

    def _miss(self, link: WorkerLink, failed: LoadFailed) -> None:
        """A worker cannot load a model: now, or any more, or from the start.

        One that has been unloaded meanwhile is nobody's loss: who fails at it starts again without.
        """
        if failed.name in link.answers:
            link.hear(failed.name, failed)
        elif failed.name in self.config.names - self.initial:
            logger.error("%s cannot load a model any more: %s", link.name, failed.message)
            self.on_lost_model(failed.name)
        elif failed.name in self.config.names and self.failure is None:
            self.failure = failed.message
            self.keeper.stopping.set()
            self.on_failure(failed.message)

    def _welcome(self, link: WorkerLink, ready: Ready) -> None:
        # It was started with the models of then; one of the same name may be another now.
        kept = {id(files) for files in self.config.files}
        for files in link.config.files:
            if id(files) not in kept:
                ready = ready.without(files.name)
                link.send(Unload(files.name))
        self.ready[link.name] = ready
        for resident in ready.residents:
            self._describe(link, resident)
        rows = {model.name: model.max_rows for model in ready.models}
        missing = [each for each in self.config.files if each.name not in ready.names]
        self.scheduler.worker_ready(link, rows, {files.name for files in missing})
        for files in missing:
            link.send(self.config.load(files))
        self.metrics.ready.set(self.is_ready)

    def _take(self, link: WorkerLink, loaded: Loaded) -> None:
        """A worker has one more model."""
        resident = loaded.resident
        if resident.name not in self.files:  # it has been given up meanwhile
            return
        self.ready[link.name] = self.ready[link.name].plus(resident)
        self._describe(link, resident)
        rows = resident.max_rows if isinstance(resident, ResidentModel) else 0
        self.scheduler.worker_loaded(link, resident.name, rows)
        link.hear(resident.name, loaded)

    def _forget(self, link: WorkerLink, name: str) -> None:
        """A worker is asked nothing of a model any more."""
        self.ready[link.name] = self.ready[link.name].without(name)

    def _describe(self, link: WorkerLink, resident: Resident) -> None:
        metrics, name, files = self.metrics, resident.name, self.files[resident.name]
        pair = (files.source, files.target) if isinstance(files, ModelFiles) else ("", "")
        metrics.model_load.labels(name).set(self._slowest_load(name))
        metrics.model_memory.labels(link.name, name).set(resident.memory_bytes)
        metrics.model_info.labels(name, *pair, resident.device, resident.dtype, files.revision).set(
            1
        )
        logger.info(
            "%s: %s on %s in %s, ready after %.1f s",
            link.name, name, resident.device, resident.dtype, resident.load_seconds,
        )  # fmt: skip

    def _slowest_load(self, name: str) -> float:
        models = [model for ready in self.ready.values() for model in ready.residents]
        return max(model.load_seconds for model in models if model.name == name)
