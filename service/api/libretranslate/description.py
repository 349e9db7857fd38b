"""GET /spec: the address at which LibreTranslate describes its API."""

from typing import Any

from fastapi import APIRouter, Request
from starlette.responses import Response

from service.api.responses import JSONResponse

router = APIRouter(tags=["operation"])


@router.get("/spec", response_model=dict[str, Any])
async def spec(request: Request) -> Response:
    """Returns the OpenAPI document of the server, the same as `/openapi.json`."""
    return JSONResponse(request.app.openapi())
