"""create_app: settings in, a FastAPI application out, with what it needs as its lifespan."""

import logging
import math
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from importlib.metadata import version

import uvicorn
from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException

from service.api import health, page
from service.api.attention import routes as attention
from service.api.libretranslate import languages
from service.api.libretranslate import routes as translate
from service.api.middleware import DirectRoutes, OpenToPages, RequestMiddleware
from service.api.openai import models
from service.api.responses import (
    handle_http_exception,
    handle_service_error,
    handle_validation_error,
)
from service.api.served_models import Offer
from service.api.services import Services
from service.api.tei import routes as embed
from service.errors import ServiceError
from service.models.catalog import Catalog
from service.settings import Settings
from service.tasks.attention.texts import TextInspector
from service.tasks.attention.translations import Inspector
from service.tasks.backend import Backend
from service.tasks.embedding import Embedder
from service.tasks.translation import Translator
from service.text.detection import LanguageDetector

LOG_FORMAT = "%(asctime)s %(levelname)s %(name)s: %(message)s"

Lifespan = Callable[[FastAPI], AbstractAsyncContextManager[None]]


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
