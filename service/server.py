"""Builds the server as one application. Only the device workers are separate processes."""

import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from fastapi import FastAPI

from service.api.app import build_services, create_web
from service.core import build_core
from service.documents.store import TemporaryFolder
from service.models.catalog import Catalog
from service.settings import Settings
from service.workers.supervisor import StartWorker, start_process


def create_app(
    settings: Settings,
    start_worker: StartWorker = start_process,
    on_failure: Callable[[str], None] | None = None,
) -> FastAPI:
    """Builds the server as one application; only the device workers are separate processes.

    Args:
        settings: Settings of the server.
        start_worker: Starts a device worker.
        on_failure: Called with the reason when a model of the settings cannot be loaded.

    Raises:
        CheckpointError: A model's files are missing or damaged.
    """
    catalog = Catalog.load(settings.models, settings.offered, settings.aliases)
    core = build_core(settings, catalog.files, start_worker, on_failure)
    documents = TemporaryFolder() if settings.files else None
    folder = documents.name if documents else ""
    services = build_services(settings, catalog, core, int(time.time()), folder)
    core.changes.announce = services.served_models.change

    @asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
        core.start()
        yield
        await core.stop()
        if documents:
            documents.cleanup()

    app = create_web(services, lifespan)
    app.state.core = core
    return app
