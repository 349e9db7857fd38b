"""POST and DELETE /v1/models/{id}: loads and unloads models while the server runs."""

from typing import Any, Literal

from fastapi import APIRouter, Request
from pydantic import BaseModel, ConfigDict, Field
from starlette.responses import Response

from service.api.context import Services, services_of
from service.api.dialect import Dialect
from service.api.openai.errors import OpenAIErrorBody
from service.api.openai.models import ModelId, all_models, find_model, is_admin
from service.api.openai.schemas import AnyModelBody, ChangingBody
from service.api.request.body import read_fields
from service.api.request.parameters import Parameters, request_body
from service.api.request.reading import validated
from service.api.responses import JSONResponse
from service.errors import ForbiddenError, UnauthorizedError

router = APIRouter(tags=["models"])

ADMIN_ERRORS: dict[int | str, dict[str, Any]] = {
    status: {"model": OpenAIErrorBody} for status in (400, 401, 403, 404, 409, "4XX", 500, 503)
}
"""Error responses of the routes that load and unload models, for OpenAPI."""


class LoadRequest(Parameters):
    """The body of `POST /v1/models/{id}`."""

    model_config = ConfigDict(
        extra="forbid", json_schema_extra={"example": {"source": "firefox:en-de"}}
    )

    source: str = Field(
        min_length=1,
        description="Reference to a model on the server's disk, as in REGARD_MODELS.",
    )


class DeletedModel(BaseModel):
    """Response of `DELETE /v1/models/{id}`, in OpenAI's shape."""

    id: str
    object: Literal["model"] = "model"
    deleted: bool = Field(description="False while the model is still being unloaded.")


def require_admin(request: Request, services: Services) -> None:
    """Refuses a request whose headers have no key with the scope `admin`.

    Raises:
        ForbiddenError: No key of the server has the scope `admin`.
        UnauthorizedError: The request has no key with this scope.
    """
    if not services.keys.has_admin:
        raise ForbiddenError(
            "models are loaded and unloaded with an admin key, and this server has none: "
            "start it with REGARD_ADMIN_KEY"
        )
    if not is_admin(request, services):
        raise UnauthorizedError(
            "this request needs the server's REGARD_ADMIN_KEY, or a key with the scope admin, as "
            "`Authorization: Bearer …`"
        )


@router.post(
    "/v1/models/{id:path}",
    response_model=AnyModelBody,
    responses={
        **ADMIN_ERRORS,
        202: {"model": ChangingBody, "description": "The model is still loading."},
    },
    openapi_extra=request_body(LoadRequest),
)
async def load(id: ModelId, request: Request) -> Response:
    """Loads a model from the server's disk; the response comes when the model is ready.

    If the load takes longer than the time limit of a request, the response is 202 and the load
    continues. Other requests are served meanwhile.
    """
    services = services_of(request)
    require_admin(request, services)
    fields = await read_fields(request, services.settings.max_body_bytes)
    body = validated(request, fields, LoadRequest)
    state = await services.backend.load_model(id, body.source)
    found = find_model(id, all_models(services, await services.backend.status()))
    return JSONResponse(found.model_dump(), 200 if state == "ready" else 202)


@router.delete(
    "/v1/models/{id:path}",
    response_model=DeletedModel,
    responses={
        **ADMIN_ERRORS,
        202: {"model": DeletedModel, "description": "The model is still being unloaded."},
    },
)
async def unload(id: ModelId, request: Request) -> Response:
    """Unloads a model; the response comes when its requests have ended and its memory is free.

    If this takes longer than the time limit of a request, the response is 202 and the unloading
    continues.
    """
    services = services_of(request)
    require_admin(request, services)
    state = await services.backend.unload_model(id)
    body = DeletedModel(id=id, deleted=state == "unloaded")
    return JSONResponse(body.model_dump(), 200 if state == "unloaded" else 202)


DIALECT = Dialect((router,))
