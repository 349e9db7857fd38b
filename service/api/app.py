"""Builds the application from the settings: services, dialects, error handlers, middleware.

A dialect is one API with its routes, such as DeepL's or OpenAI's.
"""

import logging
import os
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager
from importlib.metadata import version

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException

from service.api import (
    cohere,
    deeplx,
    extensions,
    google,
    health,
    ollama,
    page,
    tei,
    vllm,
    weaviate,
)
from service.api.attention import routes as attention
from service.api.azure import routes as azure
from service.api.context import Services
from service.api.deepl import routes as deepl
from service.api.dialect import Dialect, Routes
from service.api.libretranslate import routes as libretranslate
from service.api.mcp import routes as mcp
from service.api.middleware import (
    Application,
    RequestMiddleware,
    error_response,
    handle_http_exception,
    handle_validation_error,
)
from service.api.openai import chat, embeddings
from service.api.tracing import open_tracing
from service.http_server.connection import HttpServerConfig
from service.http_server.drain import Drain
from service.http_server.early_refusals import ID_MARK, EarlyRefusals, Template
from service.http_server.loop_load import LoopLoad, too_many
from service.http_server.pool import ConnectionPool
from service.tasks.context import RequestContext

MODULES = (
    *(libretranslate, deepl, google, azure, attention, tei, embeddings, chat, deeplx),
    *(extensions, mcp, cohere, vllm, ollama, weaviate, health, page),
)
DIALECTS: tuple[Dialect, ...] = tuple(module.DIALECT for module in MODULES)

Lifespan = Callable[[FastAPI], AbstractAsyncContextManager[None]]


def create_web(services: Services, lifespan: Lifespan) -> Application:
    tracing = open_tracing(os.environ)

    @asynccontextmanager
    async def with_endpoints(app: FastAPI) -> AsyncIterator[None]:
        try:
            async with aclosing(services.endpoints), services.keys.watched(), lifespan(app):
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
    settings, requests = services.settings, services.requests
    load = LoopLoad()
    drain = Drain(requests.count, settings.drain_delay_seconds, settings.drain_timeout_seconds)
    early = EarlyRefusals(
        load,
        # With tracing, no request is refused early: each refusal needs a span, and only the
        # middleware makes spans.
        {} if tracing else refusal_templates(DIALECTS),
        lambda: drain.has_begun,
        services.backend.recorder.count_refused,
    )
    app = Application(
        services,
        drain,
        early,
        title="Regard",
        description="A translation and embedding server that you can look inside.",
        version=version("regard"),
        servers=[{"url": "/"}],
        lifespan=with_endpoints,
        docs_url=None,  # FastAPI's page loads scripts from another host; `page` serves /docs.
        redoc_url=None,
        redirect_slashes=False,  # `Routes.path_of` takes the slash away; a redirect would not end.
        # FastAPI's telemetry would report URLs, which contain texts. `tracing` reports only paths.
        telemetry={"tracing": False, "metrics": False, "logs": False},
    )
    for dialect in DIALECTS:
        for router in dialect.routers:
            app.include_router(router)
    app.add_exception_handler(HTTPException, handle_http_exception)
    app.add_exception_handler(RequestValidationError, handle_validation_error)
    stack = app.build_middleware_stack()
    app.serve(RequestMiddleware(stack, services, Routes(DIALECTS), drain, load, tracing))
    return app


def refusal_templates(dialects: Sequence[Dialect]) -> dict[bytes, Template]:
    return {
        path.encode(): _template(dialect, task)
        for dialect in dialects
        for path, task in dialect.tasks.items()
        if ("POST", path) in dialect.routes
    }


def _template(dialect: Dialect, task: str) -> Template:
    response = error_response(too_many(), RequestContext(ID_MARK, task=task), dialect.error_shape)
    headers = [*response.raw_headers, (b"x-request-id", ID_MARK.encode())]
    if dialect.id_header:
        headers.append((dialect.id_header.lower().encode(), ID_MARK.encode()))
    lines = [name + b": " + value for name, value in headers]
    head = b"\r\n".join([*lines, b"", b""])
    return Template(task, response.status_code, head + bytes(response.body))


def http_config(app: Application) -> HttpServerConfig:
    settings = app.services.settings
    return HttpServerConfig(
        app,
        ConnectionPool(settings),
        app.early,
        host=settings.host,
        port=settings.port,
        log_config=None,  # uvicorn's messages go to the log of `service.logs`
        log_level="warning",
        access_log=False,  # a request line would contain the text of a query
        server_header=False,
        proxy_headers=False,  # LoopLoad counts requests by the address of the connection
    )
