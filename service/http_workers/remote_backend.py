"""Implements `service.tasks.backend.Backend` in an HTTP worker, by messages to the main process."""

import asyncio
import itertools
import logging
import socket
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

from service.errors import ServiceError, stopping
from service.http_workers.messages import Answer, Call, Release, Results, Submit, ToHttpWorker
from service.ipc import channel
from service.ipc.channel import Inbox, Outbox
from service.items import ResultStream, WorkItem
from service.metrics.figures import Ended
from service.workers.messages import ModelSet

logger = logging.getLogger("regard.http_worker")

FINAL_SECONDS = 1.0
"""Time at the end of the process, in which cancelled requests are answered and counted."""

ChangeModels = Callable[[ModelSet], Any]


def method(name: str) -> Callable[..., Any]:
    """Returns a method that calls the method of the same name in the main process."""

    async def call(self: "RemoteBackend", *arguments: Any) -> Any:
        return await self.ask(Call(name, arguments, next(self.ids)))

    return call


class RemoteBackend:
    """A Backend that sends all work and questions to the main process.

    Args:
        on_drain: Called when the main process asks this process to drain; `Drain.begin` explains
            the argument.
        on_lost: Called when the main process is gone.
    """

    def __init__(self, on_drain: Callable[[bool], None], on_lost: Callable[[], None]) -> None:
        self.drain = on_drain
        self.on_lost = on_lost
        self.change_models: ChangeModels | None = None
        self.ids = itertools.count(1)
        self.waiting: dict[int, asyncio.Future[Any]] = {}
        self.streams: dict[int, ResultStream] = {}
        self.num_open = 0
        self.idle = asyncio.Event()
        self.idle.set()
        self.is_lost = False
        self.recorder = self
        self.tasks: set[asyncio.Task[None]] = set()

    @asynccontextmanager
    async def connected(self, connection: socket.socket) -> AsyncIterator[None]:
        """Opens the channel to the main process; open requests have FINAL_SECONDS at its end."""
        loop = asyncio.get_running_loop()
        writer, inbox = await loop.create_connection(Inbox, sock=connection)
        self.outbox = Outbox(writer)
        listening = asyncio.create_task(self._listen(inbox))
        yield
        with suppress(TimeoutError):
            await asyncio.wait_for(self.idle.wait(), FINAL_SECONDS)
        self.outbox.flush()
        listening.cancel()
        writer.close()
        await asyncio.wait([inbox.closed])

    def begin(self, task: str) -> None:
        self.num_open += 1
        self.idle.clear()
        self.outbox.post(Call("begin", (task,)))

    def end(self, ended: Ended) -> None:
        self.num_open -= 1
        if not self.num_open:
            self.idle.set()
        self.outbox.post(Call("end", (ended,)))

    def count_refused(self, task: str, number: int) -> None:
        self.outbox.post(Call("count_refused", (task, number)))

    def count_call(self, model: str, outcome: str) -> None:
        self.outbox.post(Call("count_call", (model, outcome)))

    def listen(self) -> None:
        self.outbox.send(Call("listening"))

    async def admit(self, tokens: int, at_once: bool, client: str = "") -> "RemoteLease":
        # Without `at_once`, the first `submit` asks for the admission.
        lease = RemoteLease(self, next(self.ids), tokens, client)
        if at_once:
            await lease.ask()
        return lease

    status, metrics_text, take = method("status"), method("metrics_text"), method("take")
    load_model, unload_model = method("load_model"), method("unload_model")
    require = method("require")

    async def ask(self, message: Call | Submit) -> Any:
        if self.is_lost:
            raise stopping()
        future = self.waiting[message.id] = asyncio.get_running_loop().create_future()
        self.outbox.send(message)
        try:
            return await future
        finally:
            del self.waiting[message.id]

    async def _listen(self, inbox: Inbox) -> None:
        def receive(messages: list[ToHttpWorker]) -> None:
            for message in messages:
                channel.deliver(message, self._receive, "the main process")

        await inbox.pass_to(receive)
        logger.info("the main process is gone; the HTTP worker ends")
        self.is_lost = True
        for future in self.waiting.values():
            if not future.done():
                future.set_exception(stopping())
        for stream in [*self.streams.values()]:
            stream.fail(stopping())
        self.on_lost()

    def _receive(self, message: ToHttpWorker) -> None:
        match message:
            case Results():
                if message.id in self.streams:
                    self.streams[message.id].add(message.results)
            case Answer():
                future = self.waiting.get(message.id)
                if message.error is not None and message.id in self.streams:
                    self.streams[message.id].fail(message.error)
                elif future is None or future.done():
                    return
                elif message.error is not None:
                    future.set_exception(message.error)
                else:
                    future.set_result(message.value)
            case Call(id=0):
                getattr(self, message.method)(*message.arguments)
            case Call():
                task = asyncio.create_task(self._answer(message))
                self.tasks.add(task)
                task.add_done_callback(self.tasks.discard)

    async def _answer(self, call: Call) -> None:
        self.outbox.send(Answer(call.id, await getattr(self, call.method)(*call.arguments)))

    async def serve(self, models: ModelSet) -> str | None:
        """Serves other models from now on; returns the reason if that fails.

        If models are removed, the method first waits until the requests for these models have
        ended. The wait is at most the time limit of a request.
        """
        assert self.change_models is not None  # it is set before messages are read
        try:
            await self.change_models(models)
        except Exception as error:
            logger.exception("the models cannot be changed")
            return str(error)
        return None


@dataclass(eq=False)
class RemoteLease:
    """Implements `service.tasks.backend.Lease` by messages. The main process holds the lease."""

    backend: RemoteBackend
    number: int
    tokens: int
    client: str = ""
    is_held: bool = False  # whether the main process knows of the lease
    streams: list[int] = field(default_factory=list)

    async def ask(self) -> None:
        self.is_held = True
        try:
            ask = next(self.backend.ids), self.number, self.tokens, (), 0.0, 0, self.client
            await self.backend.ask(Submit(*ask))
        except ServiceError:
            self.is_held = False
            raise
        except asyncio.CancelledError:
            self.release()
            raise

    def submit(
        self, items: Sequence[WorkItem], deadline: float, total_tokens: int = 0
    ) -> ResultStream:
        number = next(self.backend.ids)
        stream = ResultStream(len(items))
        if self.backend.is_lost:
            stream.fail(stopping())
            return stream
        self.is_held = True
        self.streams.append(number)
        self.backend.streams[number] = stream
        seconds = deadline - time.perf_counter()
        self.backend.outbox.send(
            Submit(number, self.number, self.tokens, items, seconds, total_tokens, self.client)
        )
        return stream

    def release(self) -> None:
        streams = [self.backend.streams.pop(number) for number in self.streams]
        is_over = all(stream.is_closed for stream in streams)
        for stream in streams:
            stream.close()
        self.streams = []
        if not self.is_held:
            return
        self.is_held = False
        release = Release(self.number)
        if is_over:
            self.backend.outbox.post(release)
        else:
            self.backend.outbox.send(release)
