"""create_app: settings in, a FastAPI application out, with what it needs as its lifespan."""

import logging
import math
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from copy import copy
from importlib.metadata import version

import uvicorn
from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException

from service.backend import Backend
from service.catalog import Catalog
from service.core import build_core
from service.dependencies import Services
from service.detection import LanguageDetector
from service.embedder import Embedder
from service.errors import ServiceError
from service.inference import Translator
from service.inspector import Inspector
from service.middleware import DirectRoutes, OpenToPages, RequestMiddleware
from service.offer import Offer
from service.replies import handle_http_exception, handle_service_error, handle_validation_error
from service.routes import attention, embed, health, languages, models, page, translate
from service.settings import Settings
from service.supervisor import StartWorker, start_process
from service.text_inspector import TextInspector

LOG_FORMAT = "%(asctime)s %(levelname)s %(name)s: %(message)s"

Lifespan = Callable[[FastAPI], AbstractAsyncContextManager[None]]


def create_app(
    settings: Settings,
    start_worker: StartWorker = start_process,
    on_failure: Callable[[str], None] | None = None,
) -> FastAPI:
    """The whole server as one application, in one process but for the device workers.

    Args:
        settings: How it runs.
        start_worker: How device workers come to be.
        on_failure: Called when a model turns out not to be loadable.

    Raises:
        CheckpointError: A model's files are not there or are damaged.
    """
    catalog = Catalog.load(settings.models, settings.offered)
    core = build_core(settings, catalog, start_worker, on_failure)
    # One of its own: the core's changes earlier or later, while requests go by the other.
    services = build_services(settings, copy(catalog), core, int(time.time()))
    core.changes.announce = services.offer.change

    @asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
        core.start()
        yield
        await core.stop()

    app = create_web(services, lifespan)
    app.state.core = core
    return app


def build_services(
    settings: Settings, catalog: Catalog, backend: Backend, started: int
) -> Services:
    """What the routes work with, in front of a backend."""
    detector = LanguageDetector(catalog.languages)
    detector.preload()
    translator = Translator(catalog, backend, detector, settings)
    inspector = Inspector(catalog, backend, detector, settings)
    text_inspector = TextInspector(catalog, backend, settings)
    embedder = Embedder(catalog, backend, settings)
    offer = Offer(catalog, detector, embedder, settings.request_timeout_seconds)
    return Services(
        settings, catalog, backend, translator, inspector, text_inspector, embedder, offer, started
    )


def create_web(services: Services, lifespan: Lifespan) -> FastAPI:
    """The routes and what is around them."""
    # It warns of single characters of a body that it cannot read; the client is told anyway.
    logging.getLogger("python_multipart").setLevel(logging.CRITICAL)
    app = FastAPI(
        title="Regard",
        description="A translation and embedding server that you can look inside.",
        version=version("regard"),
        lifespan=lifespan,
        # Off: it would look for a tracer at each request, and tell one of URLs, which hold texts.
        telemetry={"tracing": False, "metrics": False, "logs": False},
    )
    app.state.services = services
    for module in (translate, attention, embed, languages, models, health, page):
        app.include_router(module.router)
    app.add_exception_handler(ServiceError, handle_service_error)
    app.add_exception_handler(HTTPException, handle_http_exception)
    app.add_exception_handler(RequestValidationError, handle_validation_error)
    direct = {
        ("POST", "/translate"): translate.translate,
        ("POST", "/embed"): embed.embed,
        ("POST", "/v1/embeddings"): embed.embeddings,
    }
    app.add_middleware(DirectRoutes, endpoints=direct)
    app.add_middleware(
        RequestMiddleware, recorder=services.backend, requests=services.offer.requests
    )
    # Around all else: a preflight is not counted.
    app.add_middleware(OpenToPages)
    return app


def http_config(app: FastAPI, settings: Settings) -> uvicorn.Config:
    """How an application is served."""
    return uvicorn.Config(
        app,
        host=settings.host,
        port=settings.port,
        log_level="warning",
        access_log=False,  # a request line would carry the text of a query
        timeout_graceful_shutdown=math.ceil(settings.drain_timeout_seconds),
        server_header=False,
        proxy_headers=False,  # nothing here asks who the client is
    )
