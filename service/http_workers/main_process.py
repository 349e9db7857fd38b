"""The main process of a server with several HTTP workers.

It keeps the HTTP workers and the device workers running, and passes the messages of the HTTP
workers to the core.
"""

import asyncio
import itertools
import logging
import socket
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import Any

from model.errors import CheckpointError
from service.core import Core, CoreLease, build_core
from service.errors import InternalError, ServiceError, fault
from service.http_workers.messages import (
    Answer,
    Call,
    FromHttpWorker,
    HttpWorkerConfig,
    Release,
    Results,
    Submit,
)
from service.ipc import channel, processes
from service.ipc.channel import Outbox
from service.ipc.processes import ChildProcess, Process, ProcessSupervisor, start_module
from service.items import ResultStream
from service.models.catalog import Catalog
from service.scheduling.supervisor import StartWorker
from service.scheduling.supervisor import start_process as start_worker_process
from service.settings import Settings
from service.state.documents import TemporaryFolder
from service.workers.messages import ModelSet

logger = logging.getLogger("regard.http_workers")

BACKLOG = 2048

StartHttpWorker = Callable[[Sequence[socket.socket]], Awaitable[Process]]


async def start_process(sockets: Sequence[socket.socket]) -> Process:
    descriptors = [each.fileno() for each in sockets]
    return await start_module("service.http_workers.http_worker", descriptors)


class HttpWorkerLink:
    """The leases, submissions and other messages of one HTTP worker."""

    def __init__(
        self, core: Core, writer: asyncio.WriteTransport, on_listening: Callable[[], None]
    ) -> None:
        self.core = core
        self.outbox = Outbox(writer)
        self.on_listening = on_listening
        self.is_listening = self.is_lost = False
        self.leases: dict[int, CoreLease] = {}
        self.tasks: dict[int, asyncio.Task[None]] = {}
        self.inflight: Counter[str] = Counter()
        self.served: dict[int, asyncio.Future[str | None]] = {}
        self.ids = itertools.count(1)

    def receive(self, message: FromHttpWorker) -> None:
        match message:
            case Submit():
                self._submit(message)
            case Release():
                if lease := self.leases.pop(message.lease, None):
                    lease.release()
            case Answer():
                self.served[message.id].set_result(message.value)
            case Call("listening"):  # the HTTP worker accepts connections, or answers a ping
                self.is_listening = True
                self.on_listening()
            case Call(id=0):
                self._count(message)
            case Call():
                self._begin(message.id, self._answer(message))

    def _count(self, message: Call) -> None:
        subject = message.arguments[0]
        if message.method == "begin":
            self.inflight[subject] += 1
        elif message.method == "end":
            self.inflight[subject.task] -= 1
        getattr(self.core.recorder, message.method)(*message.arguments)

    def _begin(self, number: int, work: Any) -> None:
        task = asyncio.create_task(work)
        self.tasks[number] = task
        task.add_done_callback(lambda _: self.tasks.pop(number))

    def lose(self) -> None:
        """Cancels the work of an HTTP worker that has ended; no client can receive the replies."""
        self.is_lost = True
        for task in self.tasks.values():
            task.cancel()
        for lease in self.leases.values():
            lease.release()
        for future in self.served.values():
            future.cancel()
        for name, count in self.inflight.items():
            if count:
                self.core.metrics.lose(name, count)

    async def serve(self, models: ModelSet) -> str | None:
        """Replaces the served models; returns the reason why the HTTP worker cannot serve them."""
        if self.is_lost:
            return None
        number = next(self.ids)
        future = self.served[number] = asyncio.get_running_loop().create_future()
        future.add_done_callback(lambda _: self.served.pop(number))
        self.outbox.send(Call("serve", (models,), number))
        if not self.is_listening:  # a disk that hangs may delay the start for ever
            return None
        await asyncio.wait({future})
        return None if future.cancelled() else future.result()

    def _submit(self, message: Submit) -> None:
        # An asyncio task would begin later, perhaps after a Release of the same lease.
        deadline = time.perf_counter() + message.seconds
        try:
            lease = self.leases.get(message.lease)
            if lease is None:
                core, tokens = self.core, message.tokens
                lease = CoreLease(core.admission, core.scheduler, tokens, message.client)
                self.leases[message.lease] = lease
            if not message.items:
                self.outbox.send(Answer(message.id))
                return
            stream = lease.submit(message.items, deadline, message.total_tokens)
        except Exception as error:
            self._refuse(message.id, error)
        else:
            self._begin(message.id, self._send_results(message.id, stream))

    async def _send_results(self, number: int, stream: ResultStream) -> None:
        try:
            while found := await stream.batch():
                self.outbox.send(Results(number, found))
        except Exception as error:
            self._refuse(number, error)

    async def _answer(self, message: Call) -> None:
        try:
            value = await getattr(self.core, message.method)(*message.arguments)
            self.outbox.send(Answer(message.id, value))
        except Exception as error:
            self._refuse(message.id, error)

    def _refuse(self, number: int, error: Exception) -> None:
        if not isinstance(error, ServiceError):
            logger.error("a message of an HTTP worker was not handled: %s", fault(error))
            error = InternalError("the server failed; the log of its main process says more")
        self.outbox.send(Answer(number, error=error))


class MainProcess:
    """Runs device workers and HTTP workers until `stop` is called.

    Every HTTP worker inherits all listening sockets. `on_listening` is called once, when the first
    one accepts connections.
    """

    def __init__(
        self,
        settings: Settings,
        listeners: list[socket.socket],
        start_worker: StartWorker = start_worker_process,
        start_http_worker: StartHttpWorker = start_process,
        on_listening: Callable[[], None] = lambda: None,
    ) -> None:
        self.settings = settings
        self.listeners = listeners
        self.start_http_worker = start_http_worker
        self.on_listening = on_listening
        self.is_listening = False
        self.catalog = catalog = Catalog.load(
            settings.models, settings.offered, settings.aliases, settings.is_on_demand
        )
        self.core = build_core(
            settings, catalog.files, start_worker, self._fail, on_demand=catalog.on_demand
        )
        self.core.changes.announce = self.announce
        self.documents = TemporaryFolder() if settings.files else None
        folder = self.documents.name if self.documents else ""
        self.config = HttpWorkerConfig(
            settings, int(time.time()), catalog.files, tuple(catalog.on_demand.values()), folder
        )
        self.keeper = ProcessSupervisor(self._run, self.core.metrics.frontend_restarts.inc)
        self.links: dict[HttpWorkerLink, ChildProcess] = {}
        self.stopping = asyncio.Event()
        self.failure: str | None = None

    async def run(self, count: int) -> None:
        self.core.start()
        self.keeper.start(f"http-{index}" for index in range(count))
        async with self.core.state.running():
            await self.stopping.wait()
        self.core.drain()
        await self._drain(has_delay=self.failure is None)
        await self.core.stop()
        if self.documents:
            self.documents.cleanup()

    async def _drain(self, has_delay: bool) -> None:
        """Drains the HTTP workers, and returns when all of them have ended.

        After the time limit, the channels of the remaining ones are closed, and STOP_SECONDS later
        they are killed.
        """
        seconds = self.settings.drain_timeout_seconds + processes.STOP_SECONDS
        seconds += self.settings.drain_delay_seconds * has_delay
        self.keeper.stopping.set()
        for listener in self.listeners:
            listener.close()
        for link, started in self.links.items():
            if link.is_listening:
                link.outbox.send(Call("drain", (has_delay,)))
            else:
                started.writer.close()
        await self.keeper.wait(seconds)

    def stop(self) -> None:
        self.stopping.set()

    def interrupt(self) -> None:
        """Begins the shutdown; a second call ends all processes without waiting for requests."""
        if self.stopping.is_set():
            for started in self.links.values():
                processes.end_at_once(started.process)
            self.core.kill()
        self.stop()

    def _fail(self, message: str) -> None:
        self.failure = message
        self.stop()

    async def announce(self, models: ModelSet) -> None:
        """Replaces the served models of all HTTP workers; raises a CheckpointError if one fails."""
        self.config = replace(self.config, models=models)
        links = [*self.links]
        failures = await asyncio.gather(*(link.serve(models) for link in links))
        for failure in filter(None, failures):
            raise CheckpointError(failure)

    async def _run(self, name: str) -> None:
        started = await ChildProcess.start(self._start)
        self.core.metrics.processes.watch(name, started.process.pid)
        link = HttpWorkerLink(self.core, started.writer, self._listens)
        self.links[link] = started
        try:
            started.writer.write(channel.pack(self.config))
            if self.keeper.is_stopping:
                started.writer.close()

            def receive(messages: list[FromHttpWorker]) -> None:
                for message in messages:
                    channel.deliver(message, link.receive, name)

            await started.run(
                name, receive, self._timeout_seconds, lambda: self._expects_message(link)
            )
        finally:
            del self.links[link]
            self.core.metrics.processes.forget(name)
            link.lose()
            is_young = self.keeper.is_stopping and not link.is_listening
            await started.end(0 if is_young else processes.STOP_SECONDS)

    def _timeout_seconds(self) -> float:
        # A large request keeps a process busy.
        timeout = max(self.config.settings.worker_timeout_seconds, processes.STOP_SECONDS)
        return processes.STOP_SECONDS if self.keeper.is_stopping else timeout

    def _expects_message(self, link: HttpWorkerLink) -> bool:
        if link.is_listening:
            link.outbox.send(Call("listen"))
        return link.is_listening

    def _listens(self) -> None:
        if not self.is_listening:
            self.is_listening = True
            self.on_listening()

    async def _start(self, connection: socket.socket) -> Process:
        return await self.start_http_worker([connection, *self.listeners])


def open_listeners(host: str, port: int) -> list[socket.socket]:
    """Opens a listening socket for each address of a host; raises an OSError."""
    kind, flags = socket.SOCK_STREAM, socket.AI_PASSIVE
    try:
        found = socket.getaddrinfo(host or None, port, type=kind, flags=flags)
    except UnicodeError as error:
        raise OSError(f"{host} is not the name of a host") from error
    listeners = []
    try:
        for family, _, _, _, address in dict.fromkeys(found):
            listeners.append(socket.create_server(address, family=family, backlog=BACKLOG))
    except OSError:
        for listener in listeners:
            listener.close()
        raise
    return listeners
