"""Keeps the front ends alive and does what they ask for, in the main process."""

import asyncio
import itertools
import logging
import socket
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace

from model.errors import CheckpointError
from service.core import Core
from service.errors import InternalError, ServiceError, fault
from service.http_workers.messages import (
    Answer,
    Ask,
    AskMetrics,
    AskStatus,
    Began,
    Cancel,
    Drain,
    EmbedRun,
    FromFrontend,
    FrontendConfig,
    LoadModel,
    Order,
    Question,
    Refusal,
    Reserve,
    Serve,
    Served,
    UnloadModel,
)
from service.ipc import channel, processes
from service.ipc.channel import Outbox
from service.ipc.processes import ChildProcess, Process, ProcessSupervisor, start_module
from service.metrics.definitions import Ended
from service.models.model_set import ModelSet
from service.scheduling.lanes import EmbeddedText, Shown, Translated
from service.tasks.backend import Status

logger = logging.getLogger("regard.frontends")

StartFrontend = Callable[[Sequence[socket.socket]], Awaitable[Process]]


async def start_process(sockets: Sequence[socket.socket]) -> Process:
    """A front end in a new interpreter, which inherits its channel and the listening sockets."""
    return await start_module(
        "service.http_workers.http_worker", [each.fileno() for each in sockets]
    )


class FrontendLink:
    """What one front end has asked for.

    Args:
        core: Who does it.
        writer: To the front end.
        on_listening: Called when it takes connections.
    """

    def __init__(
        self, core: Core, writer: asyncio.StreamWriter, on_listening: Callable[[], None]
    ) -> None:
        self.core = core
        self.outbox = Outbox(writer)
        self.on_listening = on_listening
        self.is_listening = False
        self.tasks: dict[int, asyncio.Task[None]] = {}
        self.orders: dict[int, asyncio.Future[Order]] = {}
        self.inflight: Counter[str] = Counter()
        self.served: dict[int, asyncio.Future[str | None]] = {}
        self.ids = itertools.count(1)

    def receive(self, message: FromFrontend) -> None:
        """Does what a message asks for."""
        if isinstance(message, Order) and message.id in self.orders:
            self.orders.pop(message.id).set_result(message)
        elif isinstance(message, Question):
            task = asyncio.create_task(self._answer(message))
            self.tasks[message.id] = task
            task.add_done_callback(lambda _: self.tasks.pop(message.id))
        elif isinstance(message, Began):
            self.inflight[message.task] += 1
            self.core.begin(message.task)
        elif isinstance(message, Ended):
            self.inflight[message.task] -= 1
            self.core.end(message)
        elif isinstance(message, Cancel):
            if message.id in self.tasks:  # else the answer is on its way
                self.tasks[message.id].cancel()
        elif isinstance(message, Served):
            self.served[message.id].set_result(message.failure)
        else:
            self.is_listening = True
            self.on_listening()

    def lose(self) -> None:
        """Drops what the front end asked for: it is gone, and its clients with it."""
        for task in self.tasks.values():
            task.cancel()
        for future in self.served.values():
            future.cancel()
        for name, count in self.inflight.items():
            if count:
                self.core.metrics.lose(name, count)

    async def serve(self, models: ModelSet) -> str | None:
        """Has it go by what is served from now on; gives the reason if it cannot."""
        number = next(self.ids)
        future = self.served[number] = asyncio.get_running_loop().create_future()
        self.outbox.send(Serve(number, models))
        await asyncio.wait({future})
        del self.served[number]
        return None if future.cancelled() else future.result()

    async def _answer(self, question: Question) -> None:
        try:
            value = await self._value(question)
        except ServiceError as error:
            self.outbox.send(Refusal(question.id, error))
        except Exception as error:
            logger.error("a front end's question failed: %s", fault(error))
            reason = InternalError("the server failed; the log of its main process says more")
            self.outbox.send(Refusal(question.id, reason))
        else:
            self.outbox.send(Answer(question.id, value))

    async def _value(
        self, question: Question
    ) -> list[Translated] | list[Shown] | list[EmbeddedText] | Status | bytes | str:
        if isinstance(question, LoadModel):
            return await self.core.load_model(question.name, question.source)
        if isinstance(question, UnloadModel):
            return await self.core.unload_model(question.name)
        if isinstance(question, AskStatus):
            return await self.core.status()
        if isinstance(question, AskMetrics):
            return await self.core.metrics_text()
        async with self.core.admit(question.tokens) as place:
            work = await self._order_of(question) if isinstance(question, Reserve) else question
            if isinstance(work, Ask):
                return await place.inspect(work.inquiries, work.deadline)
            if isinstance(work, EmbedRun):
                return await place.embed(work.texts, work.is_bulk, work.deadline)
            return await place.run(work.sentences, work.is_bulk, work.deadline)

    async def _order_of(self, reserve: Reserve) -> Order:
        """What a request wants that has been told that it may have it made."""
        future: asyncio.Future[Order] = asyncio.get_running_loop().create_future()
        self.orders[reserve.id] = future
        self.outbox.send(Answer(reserve.id, None))
        try:
            return await future
        finally:
            self.orders.pop(reserve.id, None)


class Frontends:
    """Runs as many front ends as asked for, until `stop`.

    Args:
        core: Who does what they ask for.
        config: How they run.
        listeners: Bound sockets, from which all of them accept connections.
        start_frontend: How a front end comes to be.
        on_listening: Called when the first of them takes connections.
    """

    def __init__(
        self,
        core: Core,
        config: FrontendConfig,
        listeners: Sequence[socket.socket],
        start_frontend: StartFrontend = start_process,
        on_listening: Callable[[], None] = lambda: None,
    ) -> None:
        self.core = core
        self.config = config
        self.listeners = listeners
        self.start_frontend = start_frontend
        self.on_listening = on_listening
        self.is_listening = False
        self.keeper = ProcessSupervisor(self._run, core.metrics.frontend_restarts.inc)
        self.links: dict[FrontendLink, ChildProcess] = {}

    def start(self, count: int) -> None:
        """Begins to start them."""
        self.keeper.start(f"http-{index}" for index in range(count))

    async def stop(self, seconds: float) -> None:
        """Has them take no more connections, finish within so many seconds, and end."""
        self.keeper.stopping.set()
        for listener in self.listeners:
            listener.close()
        for link, started in self.links.items():
            if link.is_listening:
                link.outbox.send(Drain())
            else:
                started.writer.close()
        await self.keeper.wait(seconds)

    async def announce(self, models: ModelSet) -> None:
        """Has all of them go by what is served from now on.

        Raises:
            CheckpointError: One of them cannot.
        """
        self.config = replace(self.config, models=models)  # of those that are started later
        links = [*self.links]
        failures = await asyncio.gather(*(link.serve(models) for link in links))
        for failure in filter(None, failures):
            raise CheckpointError(failure)

    def kill(self) -> None:
        """Ends them now."""
        for started in self.links.values():
            started.process.kill()

    async def _run(self, name: str) -> None:
        started = await ChildProcess.start(self._start)
        self.core.metrics.processes.watch(name, started.process.pid)
        link = FrontendLink(self.core, started.writer, self._listens)
        self.links[link] = started
        try:
            started.writer.write(channel.pack(self.config))
            if self.keeper.is_stopping:
                started.writer.close()
            async for messages in channel.messages(started.reader):
                for message in messages:
                    link.receive(message)
        finally:
            del self.links[link]
            self.core.metrics.processes.forget(name)
            link.lose()
            is_young = self.keeper.is_stopping and not link.is_listening
            await started.end(0 if is_young else processes.STOP_SECONDS)

    def _listens(self) -> None:
        if not self.is_listening:
            self.is_listening = True
            self.on_listening()

    async def _start(self, connection: socket.socket) -> Process:
        return await self.start_frontend([connection, *self.listeners])
