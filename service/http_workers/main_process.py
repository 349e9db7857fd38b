"""The main process of a server with several front ends: it answers no HTTP itself."""

import asyncio
import math
import socket
import time
from collections.abc import Callable

from service.core import build_core
from service.http_workers.messages import FrontendConfig
from service.http_workers.supervisor import Frontends, StartFrontend
from service.http_workers.supervisor import start_process as start_frontend_process
from service.ipc import processes
from service.models.catalog import Catalog
from service.settings import Settings
from service.workers.supervisor import StartWorker
from service.workers.supervisor import start_process as start_worker_process

BACKLOG = 2048


class MainProcess:
    """Runs device workers and front ends until it is stopped.

    Args:
        settings: How the server runs.
        listeners: Where it listens.
        start_worker: How device workers come to be.
        start_frontend: How front ends come to be.
        on_listening: Called when connections are taken.

    Raises:
        CheckpointError: A model's files are not there or are damaged.
    """

    def __init__(
        self,
        settings: Settings,
        listeners: list[socket.socket],
        start_worker: StartWorker = start_worker_process,
        start_frontend: StartFrontend = start_frontend_process,
        on_listening: Callable[[], None] = lambda: None,
    ) -> None:
        self.settings = settings
        catalog = Catalog.load(settings.models, settings.offered)
        self.core = build_core(settings, catalog, start_worker, self._fail)
        config = FrontendConfig(settings, int(time.time()), catalog.files)
        self.frontends = Frontends(self.core, config, listeners, start_frontend, on_listening)
        self.core.changes.announce = self.frontends.announce
        self.stopping = asyncio.Event()
        self.failure: str | None = None

    async def run(self, count: int) -> None:
        """Serves with so many front ends until `stop`; what was admitted is finished first."""
        self.core.start()
        self.frontends.start(count)
        await self.stopping.wait()
        self.core.metrics.draining.set(1)
        drain_seconds = math.ceil(self.settings.drain_timeout_seconds)
        await self.frontends.stop(drain_seconds + processes.STOP_SECONDS)
        await self.core.stop()

    def stop(self) -> None:
        """Begins the end."""
        self.stopping.set()

    def interrupt(self) -> None:
        """Begins the end; the second time, does not wait for requests."""
        if self.stopping.is_set():
            self.frontends.kill()
        self.stop()

    def _fail(self, message: str) -> None:
        self.failure = message
        self.stop()


def open_listeners(host: str, port: int) -> list[socket.socket]:
    """A listening socket for each address of a host.

    Raises:
        OSError: It has none, or one is taken.
    """
    found = socket.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    listeners = []
    try:
        for family, _, _, _, address in dict.fromkeys(found):
            listeners.append(socket.create_server(address, family=family, backlog=BACKLOG))
    except OSError:
        for listener in listeners:
            listener.close()
        raise
    return listeners
