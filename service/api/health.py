"""Health and metrics. None of them ever runs a model."""

from fastapi import APIRouter
from prometheus_client import CONTENT_TYPE_LATEST
from starlette.responses import Response

from service.api.libretranslate.schemas import ErrorBody, Health
from service.api.services import ServicesDep
from service.errors import UnavailableError

router = APIRouter(tags=["operation"])


@router.get("/health/live")
async def live(services: ServicesDep) -> Health:
    """Whether the server answers; true while the models load."""
    await services.backend.status()
    return Health(status="ok")


@router.get("/health/ready", responses={503: {"model": ErrorBody}})
@router.get("/health", responses={503: {"model": ErrorBody}})
async def ready(services: ServicesDep) -> Health:
    """Whether translations are accepted."""
    status = await services.backend.status()
    if status.failure is not None:
        raise UnavailableError(f"a model cannot be loaded: {status.failure}", 60)
    if not status.is_ready:
        reason = "the server is stopping" if status.is_stopping else "the models are loading"
        raise UnavailableError(reason, 1)
    return Health(status="ok")


@router.get("/metrics", response_class=Response)
async def metrics(services: ServicesDep) -> Response:
    """All figures, in Prometheus' text format."""
    return Response(await services.backend.metrics_text(), media_type=CONTENT_TYPE_LATEST)
