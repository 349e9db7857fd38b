"""Builds and runs the server in one process."""

import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from fastapi import FastAPI

from service.api.app import create_web, http_config
from service.api.context import Services
from service.api.middleware import Application
from service.core import Core, build_core
from service.http_server.drain import DrainingServer
from service.ipc.machine import freeze_heap
from service.models.catalog import Catalog
from service.scheduling.supervisor import StartWorker, start_process
from service.settings import Settings
from service.state.documents import TemporaryFolder


def create_app(
    settings: Settings,
    start_worker: StartWorker = start_process,
    on_failure: Callable[[str], None] | None = None,
    cores: int = 0,
) -> Application:
    """Builds the server as one application; `build_core` explains the arguments."""
    catalog = Catalog.load(
        settings.models, settings.offered, settings.aliases, settings.is_on_demand
    )
    core = build_core(
        settings, catalog.files, start_worker, on_failure, cores, on_demand=catalog.on_demand
    )
    documents = TemporaryFolder() if settings.files else None
    folder = documents.name if documents else ""
    state = core.state.database
    services = Services(settings, catalog, core, state, int(time.time()), folder)
    core.changes.announce = services.change_models

    @asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
        core.start()
        async with core.state.running():
            yield
        await core.stop()
        if documents:
            documents.cleanup()

    app = create_web(services, lifespan)
    app.state.core = core
    return app


class Server(DrainingServer):
    """Runs the server in one process. After SIGTERM, the process ends with status 0."""

    def __init__(
        self,
        settings: Settings,
        on_listening: Callable[[int, Catalog], None],
        start_worker: StartWorker = start_process,
    ) -> None:
        application = create_app(settings, start_worker, self._fail)
        super().__init__(http_config(application), application.drain)
        core: Core = application.state.core
        self.on_drain, self.on_force = core.drain, core.kill
        catalog: Catalog = application.services.catalog
        self.failure: str | None = None

        def start() -> None:
            freeze_heap()
            on_listening(self.servers[0].sockets[0].getsockname()[1], catalog)

        self.on_started = start

    def handle_exit(self, sig: int, frame: Any) -> None:
        """Starts to drain at the first SIGTERM or SIGINT; a second signal ends the server at once.

        uvicorn's method would raise the signal again after the drain, for another exit status.
        """
        if self.should_exit:
            self.force_exit = True
            if self.acceptor is not None:
                self.acceptor.loop.call_soon_threadsafe(self.on_force)
        self.should_exit = True

    def _fail(self, message: str) -> None:
        self.failure = self.failure or message
        self.drain.begin(has_delay=False)
        self.should_exit = True
