"""The main process of a server with several HTTP workers.

HTTP workers are processes that answer the requests of clients. Device workers are processes that
run the models.
"""

import asyncio
import socket
import time
from collections.abc import Callable

from service.core import build_core
from service.documents.store import TemporaryFolder
from service.http_workers.messages import HttpWorkerConfig
from service.http_workers.supervisor import HttpWorkers, StartHttpWorker
from service.http_workers.supervisor import start_process as start_http_process
from service.ipc import processes
from service.models.catalog import Catalog
from service.settings import Settings
from service.workers.supervisor import StartWorker
from service.workers.supervisor import start_process as start_worker_process

BACKLOG = 2048


class MainProcess:
    """Runs device workers and HTTP workers until `stop` is called.

    Args:
        listeners: Listening sockets, which the HTTP workers inherit.
        on_listening: Called when the first HTTP worker accepts connections.

    Raises:
        CheckpointError: The models of the settings cannot be served, as `Catalog.load` explains.
    """

    def __init__(
        self,
        settings: Settings,
        listeners: list[socket.socket],
        start_worker: StartWorker = start_worker_process,
        start_http_worker: StartHttpWorker = start_http_process,
        on_listening: Callable[[], None] = lambda: None,
    ) -> None:
        self.settings = settings
        self.catalog = catalog = Catalog.load(settings.models, settings.offered, settings.aliases)
        self.core = build_core(settings, catalog.files, start_worker, self._fail)
        self.documents = TemporaryFolder() if settings.files else None
        folder = self.documents.name if self.documents else ""
        config = HttpWorkerConfig(settings, int(time.time()), catalog.files, folder)
        self.http_workers = HttpWorkers(
            self.core, config, listeners, start_http_worker, on_listening
        )
        self.core.changes.announce = self.http_workers.announce
        self.stopping = asyncio.Event()
        self.failure: str | None = None

    async def run(self, count: int) -> None:
        """Serves with `count` HTTP workers until `stop` is called.

        Before this method returns, the HTTP workers drain (`service.http_server.drain`).
        """
        self.core.start()
        self.http_workers.start(count)
        async with self.core.state.running():
            await self.stopping.wait()
        self.core.drain()
        has_delay = self.failure is None
        seconds = self.settings.drain_timeout_seconds + processes.STOP_SECONDS
        seconds += self.settings.drain_delay_seconds * has_delay
        await self.http_workers.stop(seconds, has_delay)
        await self.core.stop()
        if self.documents:
            self.documents.cleanup()

    def stop(self) -> None:
        self.stopping.set()

    def interrupt(self) -> None:
        """Begins the shutdown; a second call ends all processes without waiting for requests."""
        if self.stopping.is_set():
            self.http_workers.kill()
            self.core.kill()
        self.stop()

    def _fail(self, message: str) -> None:
        self.failure = message
        self.stop()


def open_listeners(host: str, port: int) -> list[socket.socket]:
    """Opens a listening socket for each address of a host.

    Raises:
        OSError: The host has no address, or the system refuses one of its addresses or the port.
    """
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
