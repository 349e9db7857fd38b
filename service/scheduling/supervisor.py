"""The supervisor keeps the device workers alive: it starts them, reads from them, restarts them."""

import asyncio
import logging
import os
import socket
from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from service.errors import fault
from service.ipc import channel, processes
from service.ipc.processes import (
    ChildProcess,
    Process,
    ProcessSupervisor,
    end_at_once,
    start_module,
)
from service.metrics.definitions import Metrics
from service.scheduling.scheduler import Scheduler
from service.workers.messages import (
    AnyFiles,
    DeviceLost,
    LoadFailed,
    Ping,
    Ready,
    Report,
    Resident,
    ToWorker,
    Unload,
    Unloaded,
    WorkerConfig,
)

logger = logging.getLogger("regard.supervisor")

HUGE_PAGES = "glibc.malloc.hugetlb=1"
"""Value of GLIBC_TUNABLES that makes glibc request memory pages of 2 MiB, not of 4 KiB. A worker
reads weights in all parts of its memory. With larger pages, the processor finds more addresses in
its cache of address translations. Other C libraries ignore this variable."""

MAX_DEVICE_FAILURES = 3
"""The server ends after this number of fatal device errors, if no work item is finished between
them."""

StartWorker = Callable[[socket.socket, int], Awaitable[Process]]


async def start_process(connection: socket.socket, threads: int) -> Process:
    tunables = os.environ.get("GLIBC_TUNABLES", HUGE_PAGES)
    environment = {"OMP_NUM_THREADS": str(threads), "GLIBC_TUNABLES": tunables}
    return await start_module("service.workers.worker", [connection.fileno()], environment)


Answer = Resident | LoadFailed | Unloaded
"""The answers of a worker to a Load or an Unload."""


class WorkerLostError(Exception):
    """A worker ended before it answered a Load or an Unload."""


@dataclass(eq=False)
class WorkerLink:
    """The server's end of the channel to one worker."""

    name: str
    writer: asyncio.WriteTransport
    config: WorkerConfig
    is_lost: bool = False
    answers: dict[str, asyncio.Future[Answer]] = field(default_factory=dict)

    def send(self, message: ToWorker) -> None:
        """Sends a message without waiting. The message is lost if the worker is gone."""
        if not self.writer.is_closing():
            self.writer.write(channel.pack([message]))

    async def ask(self, model: str, message: ToWorker) -> Answer:
        """Sends a Load or an Unload, and returns the worker's answer.

        Only one call for a model may wait at a time.
        """
        if self.is_lost:
            raise WorkerLostError(f"{self.name} has ended")
        future: asyncio.Future[Answer]
        future = self.answers[model] = asyncio.get_running_loop().create_future()
        self.send(message)
        try:
            return await future
        finally:
            self.answers.pop(model, None)

    def hear(self, answer: Answer) -> None:
        future = self.answers.get(answer.name)
        if future is not None and not future.done():
            future.set_result(answer)

    def lose(self) -> None:
        self.is_lost = True
        for future in self.answers.values():
            if not future.done():
                future.set_exception(WorkerLostError(f"{self.name} ended"))


class LoadRefusedError(Exception):
    """A worker cannot load a model."""

    def __init__(self, failed: LoadFailed) -> None:
        super().__init__(failed.message)
        self.failed = failed


class Supervisor:
    """Runs a number of workers until `stop`.

    Args:
        on_failure: Called with a message when a worker cannot load an initial model, or after
            MAX_DEVICE_FAILURES fatal device errors.
        timeout_seconds: Time after which a silent worker is restarted, if it holds work or has not
            answered a Load or an Unload.
    """

    def __init__(
        self,
        config: WorkerConfig,
        devices: Sequence[str],
        scheduler: Scheduler,
        metrics: Metrics,
        start_worker: StartWorker = start_process,
        on_failure: Callable[[str], None] | None = None,
        timeout_seconds: float = 60.0,
    ) -> None:
        self.config = config
        self.devices = {f"worker-{index}": device for index, device in enumerate(devices)}
        self.scheduler = scheduler
        self.metrics = metrics
        self.start_worker = start_worker
        self.on_failure = on_failure or logger.critical
        self.timeout_seconds = timeout_seconds
        self.ready: dict[str, dict[str, Resident]] = {}  # keys: worker name, then model name
        self.failure: str | None = None
        # Called with a model's name when a restarted worker cannot load the model, if it was first
        # loaded while the server ran.
        self.on_lost_model: Callable[[str], None] = lambda name: None
        self.initial = config.models.names  # the server ends if a worker cannot load these
        self.files = {files.name: files for files in config.models.files}
        self.num_device_failures = 0  # since the last result
        self.is_draining = False  # after SIGTERM, while the workers still compute requests
        self.is_stopping = False
        self.keeper = ProcessSupervisor(self._run, metrics.engine_restarts.inc)
        self.links: dict[WorkerLink, Process] = {}

    @property
    def is_ready(self) -> bool:
        return bool(self.ready) and not (self.is_draining or self.is_stopping)

    def start(self) -> None:
        self.keeper.start(self.devices)

    async def stop(self) -> None:
        """Ends all workers. The items that the workers still hold are lost."""
        self.is_stopping = True
        self.keeper.stopping.set()
        self.metrics.ready.set(0)
        for link in self.links:
            link.writer.close()
        await self.keeper.wait(processes.STOP_SECONDS)

    def kill(self) -> None:
        self.is_stopping = True
        self.keeper.stopping.set()
        for process in self.links.values():
            end_at_once(process)

    async def load(self, files: AnyFiles, placements: Mapping[str, tuple[str, str]]) -> None:
        """Loads one more model in every worker, in one worker after the other.

        While one worker loads the model, the other workers keep their speed. After an error, which
        is a LoadRefusedError or a WorkerLostError, no worker has the model. `placements` maps the
        folder of the model to its device and dtype; without an entry, the settings apply.
        """
        config = replace(self.config, models=self.config.models.with_model(files, placements))
        self.files[files.name] = files
        try:
            while (link := self._next_to_load(files.name)) is not None:
                answer = await link.ask(files.name, self._placed(config, link.name).load(files))
                if isinstance(answer, LoadFailed):
                    raise LoadRefusedError(answer)
            if files.name not in self.resident_models():
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
            self.ready[link.name].pop(name, None)
        asked = [link.ask(name, Unload(name)) for link in links]
        await asyncio.gather(*asked, return_exceptions=True)  # a dead worker needs no unloading
        self.metrics.forget_model(name)

    def _next_to_load(self, name: str) -> WorkerLink | None:
        for link in self.links:
            ready = self.ready.get(link.name)
            if ready is not None and name not in ready:
                return link
        return None

    def _placed(self, config: WorkerConfig, worker: str) -> WorkerConfig:
        return replace(config, device=self.devices[worker])

    def resident_models(self) -> dict[str, list[Resident]]:
        found = defaultdict[str, list[Resident]](list)
        for models in self.ready.values():
            for name, resident in models.items():
                found[name].append(resident)
        return dict(found)

    async def _run(self, name: str) -> None:
        started = await ChildProcess.start(
            lambda connection: self.start_worker(connection, self.config.threads)
        )
        self.metrics.processes.watch(name, started.process.pid)
        link = WorkerLink(name, started.writer, self._placed(self.config, name))
        self.links[link] = started.process
        try:
            link.send(link.config)
            if self.is_stopping:
                started.writer.close()
            await started.run(
                name,
                partial(self._receive, link),
                lambda: self.timeout_seconds,
                lambda: self._expects_message(link),
            )
        finally:
            self.metrics.processes.forget(name)
            self.links.pop(link)
            is_loading = self.ready.pop(name, None) is None
            self.metrics.ready.set(self.is_ready)
            self.scheduler.worker_lost(link)
            link.lose()
            await started.end(0 if self.is_stopping and is_loading else processes.STOP_SECONDS)

    def _expects_message(self, link: WorkerLink) -> bool:
        """Returns whether the worker should send a message. If it sends none, it counts as hanging.

        A worker with work reports several times a second. A worker that loads a model may have
        nothing to report, so it gets a Ping.
        """
        if link.answers:
            link.send(Ping())
        return bool(link.answers) or self.scheduler.has_work(link)

    def _receive(self, link: WorkerLink, message: object) -> None:
        """Handles a message. A fault of the server does not end a worker that computes."""
        try:
            self._handle(link, message)
        except Exception as error:
            if isinstance(message, Ready):  # without its models, the worker would get no work
                raise
            kind = type(message).__name__
            logger.error("a message of %s was not handled (%s): %s", link.name, kind, fault(error))
            if isinstance(message, Resident):
                reason = "the log says more"
                link.hear(LoadFailed(reason, message.name, type(error).__name__))

    def _handle(self, link: WorkerLink, message: object) -> None:
        if isinstance(message, Report):
            self.num_device_failures *= not message.done
            self.scheduler.report(link, message)
        elif isinstance(message, Ready):
            self._welcome(link, message)
        elif isinstance(message, Resident):
            if message.name in self.files:  # else it was unloaded in the meantime
                self._take(link, message)
                link.hear(message)
        elif isinstance(message, Unloaded):
            link.hear(message)
        elif isinstance(message, LoadFailed):
            self._miss(link, message)
        elif isinstance(message, DeviceLost):
            self._lose_device(link, message)

    def _lose_device(self, link: WorkerLink, lost: DeviceLost) -> None:
        self.ready.pop(link.name, None)
        self.metrics.ready.set(self.is_ready)
        self.scheduler.device_lost(link)
        self.num_device_failures += 1
        if self.num_device_failures == MAX_DEVICE_FAILURES and self.failure is None:
            self.failure = f"the device failed {MAX_DEVICE_FAILURES} times: {lost.message}"
            self.keeper.stopping.set()
            self.on_failure(self.failure)

    def _miss(self, link: WorkerLink, failed: LoadFailed) -> None:
        """Handles a model that a worker cannot load, unless it is unloaded by now.

        If no `load` waits for the model, a model that was loaded while the server ran is given up.
        Without a model of its start, the server ends.
        """
        names = self.config.models.names
        if failed.name in link.answers:
            link.hear(failed)
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
        self.ready[link.name] = {}
        self.scheduler.worker_ready(link)
        for resident in models.values():
            self._take(link, resident)
        for files in self.config.models.files:
            if files.name not in models:
                link.send(self._placed(self.config, link.name).load(files))
        self.metrics.ready.set(self.is_ready)

    def _take(self, link: WorkerLink, resident: Resident) -> None:
        name = resident.name
        self.ready[link.name][name] = resident
        self._describe(link, resident)
        self.scheduler.worker_loaded(link, name, resident.max_rows, resident.is_on_gpu)

    def _describe(self, link: WorkerLink, resident: Resident) -> None:
        metrics, name, files = self.metrics, resident.name, self.files[resident.name]
        pair = (getattr(files, "source", ""), getattr(files, "target", ""))
        metrics.model_load.labels(name).set(
            max(each.load_seconds for each in self.resident_models()[name])
        )
        metrics.model_memory.labels(link.name, name).set(resident.memory_bytes)
        labels = (name, *pair, resident.device, resident.dtype, files.revision)
        metrics.model_info.labels(*labels).set(1)
        logger.info(
            "%s: %s on %s in %s, ready after %.1f s",
            link.name, name, resident.device, resident.dtype, resident.load_seconds,
        )  # fmt: skip
