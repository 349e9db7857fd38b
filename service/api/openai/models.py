"""GET /v1/models and GET /v1/models/{id}: the models, their state, device and precision."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Path, Request
from pydantic import BaseModel, ConfigDict, Field
from starlette.responses import Response

from model.inspection.query import InspectedConfig, attention_layers
from service.api.context import Services, context_of, services_of
from service.api.keys import given_key
from service.api.openai.errors import OpenAIErrorBody
from service.api.openai.schemas import (
    AlignmentBody,
    AnyModelBody,
    AttentionSizeBody,
    ChangingBody,
    EmbedderBody,
    ModelBody,
    ModelList,
    OtherBody,
)
from service.api.request.body import read_fields
from service.api.request.parameters import request_body
from service.api.request.reading import validated
from service.api.responses import JSONResponse
from service.errors import ForbiddenError, NotFoundError, UnauthorizedError
from service.models.remote import ServedRemote
from service.models.served import AnyServed, ServedEmbedder, ServedModel
from service.settings.keys import ADMIN
from service.tasks.attention.query import default_shift
from service.tasks.backend import Status
from service.tasks.parameters import Parameters
from service.workers.messages import Resident

router = APIRouter(tags=["models"])

ModelId = Annotated[str, Path(max_length=128, description="Name of the model.")]


@router.get("/v1/models/", include_in_schema=False)
@router.get("/v1/models")
async def models(request: Request) -> ModelList:
    """Lists the models with device and precision. An admin key adds the reasons of failed loads."""
    return ModelList(data=await shown_models(request))


@router.get("/v1/models/{id:path}", responses={"4XX": {"model": OpenAIErrorBody}})
async def model(id: ModelId, request: Request) -> AnyModelBody:
    """Returns one model."""
    return find_model(id, await shown_models(request))


def is_admin(request: Request, services: Services) -> bool:
    key = services.keys.find(given_key(context_of(request).headers, {}))
    return key is not None and ADMIN in key.scopes


async def shown_models(request: Request) -> list[AnyModelBody]:
    """Returns all models; only a request with an admin key gets the reasons of failures."""
    services = services_of(request)
    status = await services.backend.status()
    if not is_admin(request, services):
        status = replace(status, failures={})
    return all_models(services, status)


def all_models(services: Services, status: Status) -> list[AnyModelBody]:
    """Returns the served models under all their names, then the models that are changing."""
    catalog = services.catalog
    served = [model_body(each, services, status) for each in catalog.served.values()]
    served += [
        model_body(catalog.served[name], services, status, alias)
        for alias, name in catalog.aliases.items()
        if name in catalog.served and alias not in catalog.served
    ]
    names = {each.id for each in served}
    return served + [
        ChangingBody(
            id=name, created=services.started, state=state, error=status.failures.get(name)
        )
        for name, state in status.changes.items()
        if name not in names
    ]


def find_model(name: str, models: Sequence[AnyModelBody]) -> AnyModelBody:
    for each in models:
        if each.id == name:
            return each
    known = ", ".join(each.id for each in models) or "none"
    raise NotFoundError(f"there is no model {name}; there are: {known}", param="model")


def model_body(
    served: AnyServed, services: Services, status: Status, alias: str | None = None
) -> AnyModelBody:
    resident = status.resident(served.name)
    shared: dict[str, Any] = {
        "id": alias or served.name,
        "alias_of": alias and served.name,
        "state": "ready" if resident else "loading",
        "created": services.started,
        "revision": served.files.revision,
        "device": resident.device if resident else None,
        "devices": sorted({each.device for each in status.models.get(served.name, [])}),
        "dtype": resident.dtype if resident else None,
    }
    if isinstance(served, ServedModel):
        return translation_body(served, resident, shared)
    if isinstance(served, ServedRemote):
        return remote_body(served, shared)
    if isinstance(served, ServedEmbedder):
        return embedding_body(served, resident, shared)
    return OtherBody(task=served.task, **shared)


def translation_body(
    served: ServedModel, resident: Resident | None, shared: Mapping[str, Any]
) -> ModelBody:
    return ModelBody(
        source=served.files.source or None,
        target=served.files.target or None,
        sources=sorted(served.files.sources),
        targets=sorted(served.files.targets),
        attention=attention_of(resident),
        alignment=alignment_of(resident),
        **shared,
    )


def remote_body(served: ServedRemote, shared: Mapping[str, Any]) -> ModelBody:
    files = served.files
    return ModelBody(
        source=files.source,
        target=files.target,
        sources=files.sources,
        targets=files.targets,
        attention={},
        alignment=None,
        **{**shared, "state": "ready", "device": "remote", "devices": [], "dtype": "unknown"},
    )


def embedding_body(
    served: ServedEmbedder, resident: Resident | None, shared: Mapping[str, Any]
) -> EmbedderBody:
    return EmbedderBody(
        dimensions=served.config.output_size,
        max_tokens=served.config.max_tokens,
        prompts=[*served.config.prompts],
        attention=attention_sizes(served.config.encoder) if resident else None,
        **shared,
    )


def attention_of(resident: Resident | None) -> dict[str, AttentionSizeBody] | None:
    return None if resident is None or resident.config is None else attention_sizes(resident.config)


def alignment_of(resident: Resident | None) -> AlignmentBody | None:
    if resident is None or resident.config is None:
        return None
    config = resident.config
    layer, head = config.aligning_layer, config.aligning_head
    return AlignmentBody(
        layer=layer,
        head="mean" if head is None else head,
        shift=default_shift(config, layer),
    )


def attention_sizes(config: InspectedConfig) -> dict[str, AttentionSizeBody]:
    heads = config.num_heads
    return {
        kind.value: AttentionSizeBody(layers=layers, heads=heads)
        for kind, layers in attention_layers(config).items()
    }


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
    fields = await read_fields(request)
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
