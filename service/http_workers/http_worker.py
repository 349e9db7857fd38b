"""A front end: a process that answers HTTP and leaves the rest to the main process.

The command is `python -m service.http_workers.http_worker CHANNEL LISTENER...`. The arguments are
inherited file descriptors: its end of a socket pair, and the listening sockets.
"""

import asyncio
import itertools
import logging
import math
import signal
import socket
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import uvicorn
from fastapi import FastAPI

from service.api.app import LOG_FORMAT, build_services, create_web, http_config
from service.api.served_models import ServedModels
from service.errors import ServiceError, UnavailableError
from service.http_workers.messages import (
    Answer,
    Ask,
    AskMetrics,
    AskStatus,
    Began,
    Cancel,
    Drain,
    EmbedRun,
    FrontendConfig,
    Listening,
    LoadModel,
    Order,
    Question,
    Reserve,
    Run,
    Serve,
    Served,
    ToFrontend,
    UnloadModel,
)
from service.ipc import channel
from service.ipc.channel import Channel, Outbox
from service.ipc.machine import freeze_heap
from service.items.orders import Inquiry, Sentence, TextToEmbed
from service.metrics.definitions import Ended
from service.models.catalog import Catalog
from service.scheduling.lanes import EmbeddedText, Shown, Translated
from service.tasks.backend import Status

logger = logging.getLogger("regard.frontend")

LAST_WORDS_SECONDS = 1.0
"""How long it goes on at the end for what is cancelled to be answered and counted."""


class RemoteBackend:
    """A Backend that asks the main process.

    Args:
        on_end: Called when the main process wants this one to finish (False) or is gone (True).
    """

    def __init__(self, on_end: Callable[[bool], None]) -> None:
        self.on_end = on_end
        self.ids = itertools.count(1)
        self.waiting: dict[int, asyncio.Future[Any]] = {}
        self.num_open = 0
        self.idle = asyncio.Event()
        self.idle.set()
        self.is_lost = False
        self.served_models: ServedModels | None = None
        self.tasks: set[asyncio.Task[None]] = set()

    @asynccontextmanager
    async def connected(self, connection: socket.socket) -> AsyncIterator[None]:
        """Talks to the main process, until all that was begun is told to have ended."""
        reader, writer = await asyncio.open_connection(sock=connection)
        self.outbox = Outbox(writer)
        listening = asyncio.create_task(self._listen(reader))
        yield
        with suppress(TimeoutError):
            await asyncio.wait_for(self.idle.wait(), LAST_WORDS_SECONDS)
        self.outbox.flush()
        listening.cancel()
        writer.close()
        with suppress(OSError):  # the main process is gone
            await writer.wait_closed()

    def begin(self, task: str) -> None:
        """A request has come."""
        self.num_open += 1
        self.idle.clear()
        self.outbox.post(Began(task))

    def end(self, ended: Ended) -> None:
        """It has been answered."""
        self.num_open -= 1
        if not self.num_open:
            self.idle.set()
        self.outbox.post(ended)

    def listen(self) -> None:
        """Says that connections are accepted."""
        self.outbox.send(Listening())

    @asynccontextmanager
    async def admit(self, tokens: int, at_once: bool) -> AsyncIterator["RemotePlace"]:
        """A place for a request of about so many tokens.

        What is tokenised where it is, in this turn of the loop, is admitted by the same message
        that brings its sentences.

        Raises:
            RequestTooLargeError: The request alone is over the limit.
            OverloadedError: There is no room now.
        """
        place = RemotePlace(self, next(self.ids), tokens)
        try:
            if at_once:
                await place.reserve()
            yield place
        finally:
            if not place.is_over:
                self.outbox.send(Cancel(place.id))

    async def status(self) -> Status:
        """How the server is now."""
        request_id = next(self.ids)
        status: Status = await self.ask(request_id, AskStatus(request_id))
        return status

    async def metrics_text(self) -> bytes:
        """All figures, in Prometheus' text format."""
        request_id = next(self.ids)
        text: bytes = await self.ask(request_id, AskMetrics(request_id))
        return text

    async def load_model(self, name: str, source: str) -> str:
        """Loads a model.

        Raises:
            ServiceError: It cannot be loaded.
        """
        request_id = next(self.ids)
        state: str = await self.ask(request_id, LoadModel(request_id, name, source))
        return state

    async def unload_model(self, name: str) -> str:
        """Unloads a model.

        Raises:
            ServiceError: It is not loaded, or just being loaded.
        """
        request_id = next(self.ids)
        state: str = await self.ask(request_id, UnloadModel(request_id, name))
        return state

    async def ask(self, request_id: int, question: Question) -> Any:
        """What the main process answers.

        Raises:
            ServiceError: It refuses, or is gone.
        """
        if self.is_lost:
            raise stopping()
        future = asyncio.get_running_loop().create_future()
        self.waiting[request_id] = future
        self.outbox.send(question)
        try:
            return await future
        finally:
            del self.waiting[request_id]

    async def _listen(self, reader: asyncio.StreamReader) -> None:
        async for messages in channel.messages(reader):
            for message in messages:
                self._receive(message)
        logger.info("the main process is gone; the front end ends")
        self.is_lost = True
        for future in self.waiting.values():
            if not future.done():
                future.set_exception(stopping())
        self.on_end(True)

    def _receive(self, message: ToFrontend) -> None:
        if isinstance(message, Drain):
            self.on_end(False)
            return
        if isinstance(message, Serve):
            task = asyncio.create_task(self._serve(message))
            self.tasks.add(task)
            task.add_done_callback(self.tasks.discard)
            return
        future = self.waiting.get(message.id)
        if future is None or future.done():  # nobody waits for it any more
            return
        if isinstance(message, Answer):
            future.set_result(message.value)
        else:
            future.set_exception(message.error)

    async def _serve(self, serve: Serve) -> None:
        assert self.served_models is not None  # it is there before messages are read
        failure = None
        try:
            await self.served_models.change(serve.models)
        except Exception as error:
            logger.exception("the models cannot be changed")
            failure = str(error)
        self.outbox.send(Served(serve.id, failure))


@dataclass(slots=True)
class RemotePlace:
    """A Place that is asked for by message.

    Attributes:
        backend: Whom to ask.
        id: Of the request.
        tokens: An estimate.
        is_over: Whether the main process holds nothing for it, so that nothing is to be cancelled.
    """

    backend: RemoteBackend
    id: int
    tokens: int
    is_over: bool = field(default=True)

    async def reserve(self) -> None:
        """Asks for the place alone.

        Raises:
            ServiceError: It is refused.
        """
        await self._ask(Reserve(self.id, self.tokens))
        self.is_over = False

    async def run(
        self, sentences: Sequence[Sentence], is_bulk: bool, deadline: float
    ) -> list[Translated]:
        """Translates sentences, in order.

        Raises:
            ServiceError: They are refused, late, or failed.
        """
        run = Run(self.id, self.tokens, sentences, is_bulk, deadline)
        results: list[Translated] = await self._ask(run)
        return results

    async def inspect(self, inquiries: Sequence[Inquiry], deadline: float) -> list[Shown]:
        """Shows attention, in order.

        Raises:
            ServiceError: They are refused, late, or failed.
        """
        shown: list[Shown] = await self._ask(Ask(self.id, self.tokens, inquiries, deadline))
        return shown

    async def embed(
        self, texts: Sequence[TextToEmbed], is_bulk: bool, deadline: float
    ) -> list[EmbeddedText]:
        """Embeds texts, in order.

        Raises:
            ServiceError: They are refused, late, or failed.
        """
        run = EmbedRun(self.id, self.tokens, texts, is_bulk, deadline)
        embedded: list[EmbeddedText] = await self._ask(run)
        return embedded

    async def _ask(self, question: Reserve | Order) -> Any:
        self.is_over = False
        try:
            value = await self.backend.ask(self.id, question)
        except ServiceError:
            self.is_over = True
            raise
        self.is_over = True
        return value


def stopping() -> ServiceError:
    """The error for who waits when the main process is gone."""
    return UnavailableError("the server is stopping; try again", 1)


class FrontendServer(uvicorn.Server):
    """A server that says when it listens, and that only the main process stops."""

    def __init__(self, config: uvicorn.Config, backend: RemoteBackend) -> None:
        super().__init__(config)
        self.backend = backend

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Called before it serves."""
        await super().startup(sockets)
        freeze_heap()
        self.backend.listen()

    def handle_exit(self, sig: int, frame: Any) -> None:
        """Called on SIGTERM and SIGINT: a signal to the whole group must not cut it short."""


def serve(connection: socket.socket, listeners: list[socket.socket]) -> None:
    """Answers HTTP until the main process says to stop, or is gone."""
    config: FrontendConfig = Channel(connection).receive()
    settings = config.settings
    logging.basicConfig(level=settings.log_level.upper(), format=LOG_FORMAT)

    def stop(is_lost: bool) -> None:
        server.should_exit = True
        if is_lost:  # who still sends a request can get no answer to it
            server.config.timeout_graceful_shutdown = math.ceil(LAST_WORDS_SECONDS)

    backend = RemoteBackend(on_end=stop)

    @asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
        async with backend.connected(connection):
            yield

    catalog = Catalog.of(config.models, settings.offered)
    services = build_services(settings, catalog, backend, config.started)
    backend.served_models = services.served_models
    server = FrontendServer(http_config(create_web(services, lifespan), settings), backend)
    server.run(listeners)


def main() -> None:
    """Runs a front end on the sockets whose file descriptors are the arguments."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    connection, *listeners = [socket.socket(fileno=int(number)) for number in sys.argv[1:]]
    try:
        serve(connection, listeners)
    except EOFError:  # the main process ended before it said how to run
        logger.info("the main process is gone; the front end ends")


if __name__ == "__main__":
    main()
