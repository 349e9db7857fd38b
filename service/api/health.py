"""Health and metrics. These routes never run a model."""

from typing import Any

from fastapi import APIRouter, Request
from prometheus_client import CONTENT_TYPE_LATEST
from prometheus_client.openmetrics import exposition as openmetrics
from pydantic import BaseModel, Field
from starlette.responses import Response

from service.api.context import context_of
from service.api.dialect import Dialect
from service.api.errors import ErrorBody
from service.api.responses import JSONResponse, preferred
from service.errors import UnavailableError

router = APIRouter(tags=["operation"])

OPENMETRICS = "application/openmetrics-text"
PLAIN = "text/plain"


class Health(BaseModel):
    """The response of a healthy server. A server that is not healthy responds with an error."""

    status: str = Field(description="Always `ok`.")
    note: str | None = Field(
        default=None, description="What does not work, and why. Absent if everything works."
    )


@router.get("/health/live", response_model_exclude_none=True)
async def live(request: Request) -> Health:
    """Reports that the server responds. This route also succeeds while the models load."""
    await context_of(request).services.backend.status()
    return Health(status="ok")


@router.get(
    "/health/ready", responses={503: {"model": ErrorBody}}, response_model_exclude_none=True
)
@router.get("/health", responses={503: {"model": ErrorBody}}, response_model_exclude_none=True)
async def ready(request: Request) -> Health:
    """Reports whether the server accepts requests that run a model."""
    services = context_of(request).services
    status = await services.backend.status()
    if status.failure is not None:
        raise UnavailableError(f"no worker can serve: {status.failure}", 60)
    if status.is_stopping:
        raise UnavailableError("the server is stopping", 1)
    if not status.is_ready:
        raise UnavailableError("the models are loading", 1)
    if fault := status.state_fault:
        if services.settings.monthly_characters:
            raise UnavailableError(
                f"the server cannot count characters, because of its stored data: {fault}", 10
            )
        return Health(status="ok", note=f"glossaries and suggestions cannot be stored: {fault}")
    return Health(status="ok")


@router.get("/metrics", response_class=Response)
async def metrics(request: Request) -> Response:
    """Returns all metrics in Prometheus' text format, or in OpenMetrics if `Accept` prefers it."""
    accept = request.headers.get("accept", "")
    is_openmetrics = preferred(accept, (OPENMETRICS, PLAIN)) == OPENMETRICS
    text = await context_of(request).services.backend.metrics_text(is_openmetrics)
    content_type = openmetrics.CONTENT_TYPE_LATEST if is_openmetrics else CONTENT_TYPE_LATEST
    return Response(text, media_type=content_type)


@router.get("/spec", response_model=dict[str, Any])
async def spec(request: Request) -> Response:
    """Returns the OpenAPI document of the server, the same as `/openapi.json`."""
    return JSONResponse(request.app.openapi())


DIALECT = Dialect((router,))
