"""Builds the FastAPI application: services, dialects, error handlers and middleware.

A dialect is one API with its routes, such as DeepL's or OpenAI's.
"""

import logging
import os
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from importlib.metadata import version
from typing import Any

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp

from service.api import admin, health, page
from service.api.access.key_ring import KeyRing
from service.api.access.origins import CrossOrigin
from service.api.access.rules import AccessRules
from service.api.attention import routes as attention
from service.api.deepl import multilingual_glossaries
from service.api.deepl import routes as deepl
from service.api.errors import (
    handle_http_exception,
    handle_service_error,
    handle_validation_error,
)
from service.api.libretranslate import routes as libretranslate
from service.api.middleware import DirectRoutes, LoadReports, RequestMiddleware
from service.api.openai import routes as openai
from service.api.refusals import refusal_templates
from service.api.request.openapi import move_definitions
from service.api.served_models import ServedModels
from service.api.services import Services
from service.api.tei import routes as tei
from service.api.tracing.setup import open_tracing
from service.errors import ServiceError
from service.http_server.byte_budget import ByteBudget
from service.http_server.connection import HttpServerConfig
from service.http_server.drain import Drain
from service.http_server.early_refusals import EarlyRefusals
from service.http_server.loop_load import LoopLoad
from service.http_server.pool import ConnectionLimits, ConnectionPool
from service.models.catalog import Catalog
from service.remote.endpoint import Endpoints
from service.remote.routing import RoutingAdmitter
from service.settings import Settings
from service.state.database import Database
from service.state.glossaries import GlossaryStore
from service.state.quota import Quota
from service.state.suggestions import SuggestionStore
from service.tasks.attention.texts import TextInspector
from service.tasks.attention.translations import TranslationInspector
from service.tasks.backend import Backend
from service.tasks.documents.translator import DocumentTranslator
from service.tasks.embedding.embedder import Embedder
from service.tasks.translation.translator import Translator
from service.text.detection import LanguageDetector

DIALECTS = (
    libretranslate.DIALECT,
    deepl.DIALECT,
    multilingual_glossaries.DIALECT,
    attention.DIALECT,
    tei.DIALECT,
    openai.DIALECT,
    admin.DIALECT,
    health.DIALECT,
    page.DIALECT,
)

Lifespan = Callable[[FastAPI], AbstractAsyncContextManager[None]]


class Application(FastAPI):
    """A FastAPI application. Its OpenAPI document describes bodies that FastAPI does not parse."""

    def build_middleware_stack(self) -> ASGIApp:
        """Returns the middleware, from CrossOrigin inwards.

        FastAPI adds three layers around it: for errors, telemetry and body limits.
        RequestMiddleware handles all errors, and the other two layers are off. Without the three
        layers, an HTTP process spends 3 % less time on a short request.
        """
        stack: Any = super().build_middleware_stack()
        while not isinstance(stack, CrossOrigin):
            stack = stack.app
        return stack

    def openapi(self) -> dict[str, Any]:
        """Returns the OpenAPI document; its components include the schemas of request bodies."""
        document = super().openapi()
        move_definitions(document)
        return document


def build_services(
    settings: Settings,
    catalog: Catalog,
    backend: Backend,
    database: Database,
    started: int,
    folder: str = "",
) -> Services:
    """Builds the objects that the routes work with.

    Args:
        settings: Settings of the server.
        catalog: Models and languages that are served.
        backend: Admission, device workers and metrics.
        database: The state of the server.
        started: Start of the server, in Unix seconds.
        folder: Folder of the translated documents; "" if the server does not translate documents.
    """
    detector = LanguageDetector(catalog.languages)
    detector.preload()
    endpoints = Endpoints(settings, backend)
    admitter = RoutingAdmitter(catalog, backend, endpoints)
    translator = Translator(catalog, admitter, detector, settings)
    inspector = TranslationInspector(catalog, backend, detector, settings)
    text_inspector = TextInspector(catalog, backend, settings)
    embedder = Embedder(catalog, backend, settings)
    served = ServedModels(catalog, detector, embedder, settings.request_timeout_seconds)
    quota = Quota(database, settings.monthly_characters)
    documents = DocumentTranslator(translator, quota, settings, folder) if folder else None
    return Services(
        settings,
        catalog,
        backend,
        translator,
        inspector,
        text_inspector,
        embedder,
        documents,
        KeyRing(settings),
        database,
        quota,
        GlossaryStore(database),
        SuggestionStore(database) if settings.suggestions else None,
        served,
        endpoints,
        started,
    )


def create_web(services: Services, lifespan: Lifespan) -> FastAPI:
    """Builds the application from the dialects, the error handlers and the middleware."""
    tracing = open_tracing(os.environ)

    @asynccontextmanager
    async def with_endpoints(app: FastAPI) -> AsyncIterator[None]:
        try:
            async with services.endpoints, services.keys.watched(), lifespan(app):
                if services.documents:
                    await services.documents.remove_expired()
                yield
        finally:
            if services.documents:
                services.documents.close()
            if tracing:
                await tracing.close()

    # python_multipart logs each character that it cannot read; the error response is enough.
    logging.getLogger("python_multipart").setLevel(logging.CRITICAL)
    app = Application(
        title="Regard",
        description="A translation and embedding server that you can look inside.",
        version=version("regard"),
        lifespan=with_endpoints,
        docs_url=None,  # FastAPI's page loads scripts from another host; `page` serves /docs.
        redoc_url=None,
        # FastAPI's telemetry would report URLs, which contain texts. `tracing` reports only paths.
        telemetry={"tracing": False, "metrics": False, "logs": False},
    )
    settings = services.settings
    app.state.services = services
    load = LoopLoad()
    app.state.drain = drain = Drain(
        services.served_models.requests.count,
        services.settings.drain_delay_seconds,
        services.settings.drain_timeout_seconds,
    )
    app.state.early = EarlyRefusals(
        load,
        # With tracing, no request is refused early: each refusal needs a span, and only the
        # middleware makes spans.
        {} if tracing else refusal_templates(DIALECTS),
        lambda: drain.has_begun,
        services.backend.count_refused,
    )
    for dialect in DIALECTS:
        for router in dialect.routers:
            app.include_router(router)
    app.add_exception_handler(ServiceError, handle_service_error)
    app.add_exception_handler(HTTPException, handle_http_exception)
    app.add_exception_handler(RequestValidationError, handle_validation_error)
    app.add_middleware(DirectRoutes, dialects=DIALECTS)
    app.add_middleware(
        RequestMiddleware,
        recorder=services.backend,
        requests=services.served_models.requests,
        dialects=DIALECTS,
        tracing=tracing,
        drain=drain,
        load=load,
        access=AccessRules.of(settings),
    )
    if settings.load_reports:
        app.add_middleware(LoadReports, backend=services.backend)
    # This middleware is the outermost, so that preflights are not counted.
    app.add_middleware(CrossOrigin, allowed=settings.allowed_origins)
    return app


def http_config(app: FastAPI, settings: Settings) -> HttpServerConfig:
    """Returns the configuration of the HTTP server for an application."""
    limits = ConnectionLimits(
        settings.max_connections,
        settings.max_header_bytes,
        settings.max_headers,
        settings.header_timeout_seconds,
        settings.idle_timeout_seconds,
        settings.write_timeout_seconds,
    )
    return HttpServerConfig(
        app,
        ConnectionPool(limits, ByteBudget(settings.max_buffered_bytes)),
        app.state.early,
        host=settings.host,
        port=settings.port,
        log_config=None,  # uvicorn's messages go to the log of `service.logs`
        log_level="warning",
        access_log=False,  # a request line would contain the text of a query
        server_header=False,
        proxy_headers=False,  # LoopLoad counts requests by the address of the connection
    )
