"""Health and metrics. None of them ever runs a model."""

from fastapi import APIRouter
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from starlette.responses import Response

from service.dependencies import ServicesDep
from service.errors import UnavailableError
from service.schemas import ErrorBody, Health

router = APIRouter(tags=["operation"])


@router.get("/health/live")
async def live() -> Health:
    """Whether the process answers; true while the models load."""
    return Health(status="ok")


@router.get("/health/ready", responses={503: {"model": ErrorBody}})
@router.get("/health", responses={503: {"model": ErrorBody}})
async def ready(services: ServicesDep) -> Health:
    """Whether translations are accepted."""
    supervisor = services.supervisor
    if supervisor.failure is not None:
        raise UnavailableError(f"a model cannot be loaded: {supervisor.failure}", 60)
    if not supervisor.is_ready:
        reason = "the server is stopping" if supervisor.is_stopping else "the models are loading"
        raise UnavailableError(reason, 1)
    return Health(status="ok")


@router.get("/metrics", response_class=Response)
async def metrics(services: ServicesDep) -> Response:
    """All figures, in Prometheus' text format."""
    return Response(generate_latest(services.metrics.registry), media_type=CONTENT_TYPE_LATEST)
