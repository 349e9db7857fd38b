"""Implements `service.tasks.backend.Backend` in an HTTP worker, by messages to the main process."""

import asyncio
import itertools
import logging
import socket
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any

from service.errors import ServiceError, UnavailableError
from service.http_workers.messages import (
    Admit,
    Answer,
    Began,
    Called,
    Drain,
    GetMetrics,
    GetStatus,
    Listening,
    LoadModel,
    Ping,
    Question,
    Refusal,
    Refused,
    Release,
    Results,
    Serve,
    Served,
    Submit,
    Take,
    ToHttpWorker,
    UnloadModel,
)
from service.ipc import channel
from service.ipc.channel import Outbox
from service.items.base import WorkItem
from service.items.result_stream import ResultStream
from service.metrics.figures import Ended
from service.settings.keys import RateLimits
from service.tasks.backend import Status
from service.workers.messages import ModelSet

logger = logging.getLogger("regard.http_worker")

FINAL_SECONDS = 1.0
"""Time at the end of the process, in which cancelled requests are answered and counted."""

ChangeModels = Callable[[ModelSet], Any]


class RemoteBackend:
    """A Backend that sends all work and questions to the main process.

    Args:
        on_drain: Called when the main process asks this process to drain. Its argument is True
            if this process still accepts requests for REGARD_DRAIN_DELAY_SECONDS.
        on_lost: Called when the main process is gone.

    Attributes:
        change_models: Coroutine function that replaces the set of served models.
    """

    def __init__(self, on_drain: Callable[[bool], None], on_lost: Callable[[], None]) -> None:
        self.on_drain = on_drain
        self.on_lost = on_lost
        self.change_models: ChangeModels | None = None
        self.ids = itertools.count(1)
        self.waiting: dict[int, asyncio.Future[Any]] = {}
        self.streams: dict[int, ResultStream] = {}
        self.num_open = 0
        self.idle = asyncio.Event()
        self.idle.set()
        self.is_lost = False
        self.tasks: set[asyncio.Task[None]] = set()

    @asynccontextmanager
    async def connected(self, connection: socket.socket) -> AsyncIterator[None]:
        """Opens the channel to the main process, and closes it after the context.

        Before this method closes the channel, it waits until all requests have ended, but at most
        for FINAL_SECONDS.
        """
        reader, writer = await asyncio.open_connection(sock=connection)
        self.outbox = Outbox(writer)
        listening = asyncio.create_task(self._listen(reader))
        yield
        with suppress(TimeoutError):
            await asyncio.wait_for(self.idle.wait(), FINAL_SECONDS)
        self.outbox.flush()
        listening.cancel()
        writer.close()
        with suppress(OSError):  # the main process is gone
            await writer.wait_closed()

    def begin(self, task: str) -> None:
        """Counts a request that has arrived."""
        self.num_open += 1
        self.idle.clear()
        self.outbox.post(Began(task))

    def end(self, ended: Ended) -> None:
        """Counts a request that has ended."""
        self.num_open -= 1
        if not self.num_open:
            self.idle.set()
        self.outbox.post(ended)

    def count_refused(self, task: str, number: int) -> None:
        """Counts requests that were refused before the application got them."""
        self.outbox.post(Refused(task, number))

    def count_call(self, model: str, outcome: str) -> None:
        """Counts a request to the endpoint of a remote model."""
        self.outbox.post(Called(model, outcome))

    def listen(self) -> None:
        """Reports to the main process that this process accepts connections."""
        self.outbox.send(Listening())

    async def admit(self, tokens: int, at_once: bool, client: str = "") -> "RemoteLease":
        """Admits a request of about `tokens` tokens.

        If `at_once` is false, this method sends nothing. The first `submit` of the lease then asks
        for the admission, and the result stream raises the errors.

        Raises:
            RequestTooLargeError: The request alone exceeds the token limit.
            OverloadedError: The requests in progress leave no room for this one.
            UnavailableError: The main process is gone.
        """
        lease = RemoteLease(self, next(self.ids), tokens, client)
        if at_once:
            await lease.ask()
        return lease

    async def status(self) -> Status:
        """Returns the state of the server.

        Raises:
            UnavailableError: The main process is gone.
        """
        number = next(self.ids)
        status: Status = await self.ask(number, GetStatus(number))
        return status

    async def metrics_text(self, is_openmetrics: bool) -> bytes:
        """Returns all metrics in Prometheus' text format, or in OpenMetrics with exemplars.

        Raises:
            UnavailableError: The main process is gone.
        """
        number = next(self.ids)
        text: bytes = await self.ask(number, GetMetrics(number, is_openmetrics))
        return text

    async def take(self, account: str, limits: RateLimits, characters: int) -> None:
        """Counts a request against the limits of its key.

        Raises:
            RequestTooLargeError: The request alone has more characters than the limit.
            RateLimitedError: The account of the key has too few requests or characters left.
            UnavailableError: The main process is gone.
        """
        number = next(self.ids)
        await self.ask(number, Take(number, account, limits, characters))

    async def load_model(self, name: str, source: str) -> str:
        """Loads a model.

        Raises:
            ServiceError: The model cannot be loaded.
        """
        number = next(self.ids)
        state: str = await self.ask(number, LoadModel(number, name, source))
        return state

    async def unload_model(self, name: str) -> str:
        """Unloads a model.

        Raises:
            ServiceError: The model is not loaded, is being loaded or unloaded, or is remote.
        """
        number = next(self.ids)
        state: str = await self.ask(number, UnloadModel(number, name))
        return state

    async def ask(self, number: int, question: Question | Admit) -> Any:
        """Sends a question, and returns the answer of the main process.

        Raises:
            ServiceError: The main process refuses the question, or is gone.
        """
        if self.is_lost:
            raise stopping()
        future = asyncio.get_running_loop().create_future()
        self.waiting[number] = future
        self.outbox.send(question)
        try:
            return await future
        finally:
            del self.waiting[number]

    async def _listen(self, reader: asyncio.StreamReader) -> None:
        async for messages in channel.messages(reader):
            for message in messages:
                channel.deliver(message, self._receive, "the main process")
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
                if future is not None and not future.done():
                    future.set_result(message.value)
            case Refusal():
                self._refuse(message)
            case Ping():
                self.listen()
            case Drain():
                self.on_drain(message.has_delay)
            case Serve():
                task = asyncio.create_task(self._serve(message))
                self.tasks.add(task)
                task.add_done_callback(self.tasks.discard)

    def _refuse(self, refusal: Refusal) -> None:
        future = self.waiting.get(refusal.id)
        if refusal.id in self.streams:
            self.streams[refusal.id].fail(refusal.error)
        elif future is not None and not future.done():
            future.set_exception(refusal.error)

    async def _serve(self, serve: Serve) -> None:
        assert self.change_models is not None  # it is set before messages are read
        failure = None
        try:
            await self.change_models(serve.models)
        except Exception as error:
            logger.exception("the models cannot be changed")
            failure = str(error)
        self.outbox.send(Served(serve.id, failure))


class RemoteLease:
    """Implements `service.tasks.backend.Lease` by messages. The main process holds the lease.

    Args:
        backend: Sends the messages.
        number: Id of the lease.
        tokens: Estimated number of tokens.
        client: Identity of the client.
    """

    def __init__(self, backend: RemoteBackend, number: int, tokens: int, client: str = "") -> None:
        self.backend = backend
        self.number = number
        self.tokens = tokens
        self.client = client
        self.is_held = False  # whether the main process knows of the lease
        self.streams: list[int] = []

    async def ask(self) -> None:
        """Asks for the admission, before any items are submitted.

        Raises:
            ServiceError: The admission is refused.
        """
        number = next(self.backend.ids)
        self.is_held = True
        try:
            await self.backend.ask(number, Admit(number, self.number, self.tokens, self.client))
        except ServiceError:
            self.is_held = False
            raise
        except asyncio.CancelledError:
            self.release()
            raise

    def submit(
        self, items: Sequence[WorkItem], deadline: float, total_tokens: int = 0
    ) -> ResultStream:
        """Submits items of the request; iterating over the results may raise a ServiceError."""
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
        """Ends the admission, and cancels the unfinished items."""
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


def stopping() -> ServiceError:
    """Returns the error of a request when the main process is gone."""
    return UnavailableError("the server is stopping; try again", 1)
