"""Health and metrics. These routes never run a model."""

from fastapi import APIRouter, Request
from prometheus_client import CONTENT_TYPE_LATEST
from pydantic import BaseModel, Field
from starlette.responses import Response

from service.api.dialect import Dialect
from service.api.errors import ErrorBody
from service.api.services import services_of
from service.errors import UnavailableError

router = APIRouter(tags=["operation"])


class Health(BaseModel):
    """The response of a healthy server. A server that is not healthy responds with an error."""

    status: str = Field(description="Always `ok`.")


@router.get("/health/live")
async def live(request: Request) -> Health:
    """Tells whether the server answers, also while the models load."""
    await services_of(request).backend.status()
    return Health(status="ok")


@router.get("/health/ready", responses={503: {"model": ErrorBody}})
@router.get("/health", responses={503: {"model": ErrorBody}})
async def ready(request: Request) -> Health:
    """Tells whether the server accepts requests that run a model."""
    status = await services_of(request).backend.status()
    if status.failure is not None:
        raise UnavailableError(f"a model cannot be loaded: {status.failure}", 60)
    if not status.is_ready:
        reason = "the server is stopping" if status.is_stopping else "the models are loading"
        raise UnavailableError(reason, 1)
    return Health(status="ok")


@router.get("/metrics", response_class=Response)
async def metrics(request: Request) -> Response:
    """Returns all metrics in Prometheus' text format."""
    text = await services_of(request).backend.metrics_text()
    return Response(text, media_type=CONTENT_TYPE_LATEST)


DIALECT = Dialect((router,))
