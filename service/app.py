"""create_app: settings in, a FastAPI application out, with its workers as its lifespan."""

import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from importlib.metadata import version
from pathlib import Path

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware

from model.sequence import EngineLimits
from service.admission import Admission
from service.catalog import Catalog
from service.dependencies import Services
from service.detection import LanguageDetector
from service.errors import ServiceError
from service.inference import Translator
from service.messages import WorkerConfig
from service.metrics import Metrics
from service.middleware import RequestMiddleware
from service.replies import handle_http_exception, handle_service_error, handle_validation_error
from service.routes import health, languages, models, translate
from service.scheduler import Scheduler
from service.settings import Settings
from service.supervisor import StartWorker, Supervisor, available_cores, start_process

CORS_MAX_AGE_SECONDS = 20 * 24 * 3600


def create_app(
    settings: Settings,
    start_worker: StartWorker = start_process,
    on_failure: Callable[[str], None] | None = None,
) -> FastAPI:
    """The application.

    Args:
        settings: How it runs.
        start_worker: How device workers come to be.
        on_failure: Called when a model turns out not to be loadable.

    Raises:
        CheckpointError: A model's files are not there or are damaged.
    """
    services = assemble(settings, start_worker, on_failure)

    @asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
        services.supervisor.start()
        yield
        services.translator.scheduler.close()
        await services.supervisor.stop()

    app = FastAPI(
        title="Regard",
        description="A translation and embedding server that you can look inside.",
        version=version("regard"),
        lifespan=lifespan,
    )
    app.state.services = services
    for module in (translate, languages, models, health):
        app.include_router(module.router)
    app.add_exception_handler(ServiceError, handle_service_error)
    app.add_exception_handler(HTTPException, handle_http_exception)
    app.add_exception_handler(RequestValidationError, handle_validation_error)
    app.add_middleware(RequestMiddleware, metrics=services.metrics)
    # Around all else: a page may read even the answer to a fault, and preflights are not counted.
    app.add_middleware(
        CORSMiddleware,
        allow_origins=["*"],
        allow_methods=["GET", "POST"],
        allow_headers=["Authorization", "Content-Type"],
        expose_headers=["Retry-After", "Server-Timing", "X-Request-Id"],
        max_age=CORS_MAX_AGE_SECONDS,
    )
    return app


def assemble(
    settings: Settings, start_worker: StartWorker, on_failure: Callable[[str], None] | None
) -> Services:
    """Everything that the server is made of, not yet started.

    Raises:
        CheckpointError: A model's files are not there or are damaged.
    """
    catalog = Catalog.load(settings.models)
    metrics = Metrics(catalog.models, version("regard"))
    metrics.admission_limit.labels("requests").set(settings.max_pending_requests)
    metrics.admission_limit.labels("tokens").set(settings.max_pending_tokens)
    admission = Admission(settings.max_pending_requests, settings.max_pending_tokens)
    scheduler = Scheduler(catalog.models, admission, metrics)
    detector = LanguageDetector(catalog.languages)
    detector.preload()
    translator = Translator(catalog, scheduler, admission, detector, metrics, settings)
    cores = available_cores()
    count = settings.workers or (1 if uses_gpu(settings.device) else cores)
    config = WorkerConfig(
        models=tuple(model.files for model in catalog.models.values()),
        device=settings.device,
        dtype=settings.dtype,
        shortlist=settings.shortlist,
        limits=EngineLimits(
            max_rows=settings.max_rows,
            max_source_tokens=settings.max_source_tokens,
            max_batch_tokens=settings.max_batch_tokens,
        ),
        threads=max(1, cores // count),
    )
    supervisor = Supervisor(config, count, scheduler, metrics, start_worker)
    if on_failure is not None:
        supervisor.on_failure = on_failure
    return Services(settings, catalog, metrics, translator, supervisor, int(time.time()))


def uses_gpu(device: str) -> bool:
    """Whether the workers will compute on a GPU, as far as can be told without torch."""
    return device.startswith("cuda") or (device == "auto" and Path("/dev/nvidia0").exists())
