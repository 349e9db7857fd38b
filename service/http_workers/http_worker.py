"""An HTTP worker: a process that answers HTTP requests.

The command is `python -m service.http_workers.http_worker CHANNEL LISTENER...`. The arguments are
inherited file descriptors: the worker's end of a socket pair, and the listening sockets.
"""

import logging
import signal
import socket
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from fastapi import FastAPI

from service import logs
from service.api.app import create_web, http_config
from service.api.context import Services
from service.http_server.drain import DrainingServer
from service.http_workers.messages import HttpWorkerConfig
from service.http_workers.remote_backend import FINAL_SECONDS, RemoteBackend
from service.ipc.channel import Channel
from service.ipc.machine import freeze_heap, require_linux
from service.models.catalog import Catalog
from service.state.database import Database

logger = logging.getLogger("regard.http_worker")


class HttpWorkerServer(DrainingServer):
    """A server that only the main process ends, not a signal."""

    def handle_exit(self, sig: int, frame: Any) -> None:
        pass


def serve(connection: socket.socket, listeners: Sequence[socket.socket]) -> None:
    config: HttpWorkerConfig = Channel(connection).receive()
    settings = config.settings
    logs.configure(settings.log_level, settings.log_format)

    def stop(has_delay: bool) -> None:
        server.drain.begin(has_delay)
        server.should_exit = True

    def start() -> None:
        freeze_heap()
        backend.listen()

    def end() -> None:  # without the main process no request can be computed
        server.drain.timeout_seconds = FINAL_SECONDS
        stop(has_delay=False)

    backend = RemoteBackend(on_drain=stop, on_lost=end)

    @asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
        async with backend.connected(connection):
            yield

    # The models that are served now need not have all languages and aliases of the settings.
    catalog = Catalog((), settings.offered, settings.aliases, config.on_demand)
    catalog = catalog.changed_to(config.models)
    state = Database(settings.state)
    services = Services(settings, catalog, backend, state, config.started, config.folder)
    backend.change_models = services.change_models
    app = create_web(services, lifespan)
    server = HttpWorkerServer(http_config(app), app.drain)
    server.on_started = start
    server.run([*listeners])


def run(connection: socket.socket, *listeners: socket.socket) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    try:
        serve(connection, listeners)
    except EOFError:  # the main process ended before it sent the config
        logger.info("the main process is gone; the HTTP worker ends")


def main() -> None:
    require_linux()
    logs.configure("info", logs.environment_format())  # until the settings have arrived
    run(*[socket.socket(fileno=int(number)) for number in sys.argv[1:]])


if __name__ == "__main__":
    main()
