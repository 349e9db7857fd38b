"""GET /v1/models, and loading and unloading them while the server runs."""

import hmac
from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated

from fastapi import APIRouter, Depends, Path, Request
from starlette.responses import Response

from model.inspection.query import InspectedConfig, attention_layers
from service.api.libretranslate.schemas import (
    AttentionSizeBody,
    ChangingBody,
    DeletedModel,
    EmbedderBody,
    LoadRequest,
    ModelBody,
    ModelList,
)
from service.api.openai.errors import OpenAIErrorBody
from service.api.parameters import json_body_of, read_parameters
from service.api.responses import ADMIN_ERRORS, JSONReply
from service.api.services import Services, ServicesDep
from service.errors import ForbiddenError, NotFoundError, UnauthorizedError
from service.tasks.backend import Status
from service.workers.messages import Resident

router = APIRouter(tags=["models"])

AnyModelBody = ModelBody | EmbedderBody | ChangingBody
ModelId = Annotated[str, Path(max_length=128, description="Name of the model.")]


async def require_admin(request: Request, services: ServicesDep) -> None:
    """Lets only those pass who know the admin key.

    Raises:
        ForbiddenError: There is none.
        UnauthorizedError: The request has none, or another.
    """
    key = services.settings.admin_key.get_secret_value()
    if not key:
        raise ForbiddenError(
            "models are loaded and unloaded with an admin key, and this server has none: "
            "start it with REGARD_ADMIN_KEY"
        )
    if not is_admin(request, key):
        raise UnauthorizedError(
            "this needs the server's REGARD_ADMIN_KEY, as `Authorization: Bearer …`"
        )


def is_admin(request: Request, key: str) -> bool:
    """Whether a request has the admin key; never where there is none."""
    scheme, _, given = request.headers.get("authorization", "").partition(" ")
    is_equal = hmac.compare_digest(given.strip().encode("latin-1"), key.encode())
    return bool(key) and scheme.lower() == "bearer" and is_equal


@router.get("/v1/models")
async def models(request: Request, services: ServicesDep) -> ModelList:
    """What is resident, where and in which precision; with the admin key also what failed, why."""
    return ModelList(data=await shown_bodies(request, services))


@router.get("/v1/models/{id}", responses={"4XX": {"model": OpenAIErrorBody}})
async def model(id: ModelId, request: Request, services: ServicesDep) -> AnyModelBody:
    """One of them."""
    return find_body(id, await shown_bodies(request, services))


@router.post(
    "/v1/models/{id}",
    dependencies=[Depends(require_admin)],
    response_model=AnyModelBody,
    responses={**ADMIN_ERRORS, 202: {"model": ChangingBody, "description": "It still loads."}},
    openapi_extra=json_body_of(LoadRequest),
)
async def load(id: ModelId, request: Request, services: ServicesDep) -> Response:
    """Load a model that is on disk, beside the work; the answer comes when it is ready."""
    body = await read_parameters(request, LoadRequest, services.settings.max_body_bytes)
    state = await services.backend.load_model(id, body.source)
    found = find_body(id, all_bodies(services, await services.backend.status()))
    return JSONReply(found.model_dump(), 200 if state == "ready" else 202)


@router.delete(
    "/v1/models/{id}",
    dependencies=[Depends(require_admin)],
    response_model=DeletedModel,
    responses={**ADMIN_ERRORS, 202: {"model": DeletedModel, "description": "Requests still run."}},
)
async def unload(id: ModelId, services: ServicesDep) -> Response:
    """Unload a model; the answer comes when its requests have ended and its memory is free."""
    state = await services.backend.unload_model(id)
    body = DeletedModel(id=id, deleted=state == "unloaded")
    return JSONReply(body.model_dump(), 200 if state == "unloaded" else 202)


async def shown_bodies(request: Request, services: Services) -> list[AnyModelBody]:
    """Everything, with reasons for those alone who have the admin key."""
    status = await services.backend.status()
    if not is_admin(request, services.settings.admin_key.get_secret_value()):
        status = replace(status, failures={})
    return all_bodies(services, status)


def all_bodies(services: Services, status: Status) -> list[AnyModelBody]:
    """Everything that is there, or about to be, or about to go."""
    bodies: list[AnyModelBody] = [
        *model_bodies(services, status),
        *embedder_bodies(services, status),
    ]
    names = {body.id for body in bodies}
    return bodies + [
        ChangingBody(
            id=name, created=services.started, state=state, error=status.failures.get(name)
        )
        for name, state in status.changes.items()
        if name not in names
    ]


def find_body(name: str, bodies: Sequence[AnyModelBody]) -> AnyModelBody:
    """The one of that name.

    Raises:
        NotFoundError: There is none.
    """
    for body in bodies:
        if body.id == name:
            return body
    known = ", ".join(body.id for body in bodies) or "none"
    raise NotFoundError(f"there is no model {name}; there are: {known}", param="model")


def model_bodies(services: Services, status: Status) -> list[ModelBody]:
    """The translation models."""
    resident = status.models
    return [
        ModelBody(
            id=name,
            state="ready" if name in resident else "loading",
            created=services.started,
            source=served.files.source or None,
            target=served.files.target or None,
            sources=sorted(served.files.sources),
            targets=sorted(served.files.targets),
            revision=served.files.revision,
            device=resident[name].device if name in resident else None,
            dtype=resident[name].dtype if name in resident else None,
            attention=attention_of(resident.get(name)),
        )
        for name, served in services.catalog.models.items()
    ]


def embedder_bodies(services: Services, status: Status) -> list[EmbedderBody]:
    """The embedding models."""
    resident = status.models
    return [
        EmbedderBody(
            id=name,
            state="ready" if name in resident else "loading",
            created=services.started,
            dimensions=served.config.output_size,
            max_tokens=served.config.max_tokens,
            prompts=[*served.config.prompts],
            revision=served.files.revision,
            device=resident[name].device if name in resident else None,
            dtype=resident[name].dtype if name in resident else None,
            attention=attention_body(served.config.encoder) if name in resident else None,
        )
        for name, served in services.catalog.embedders.items()
    ]


def attention_of(resident: Resident | None) -> dict[str, AttentionSizeBody] | None:
    """Returns the attention of a resident translation model."""
    return None if resident is None or resident.config is None else attention_body(resident.config)


def attention_body(config: InspectedConfig) -> dict[str, AttentionSizeBody]:
    """What can be looked into of a model."""
    heads = config.num_heads
    return {
        kind.value: AttentionSizeBody(layers=layers, heads=heads)
        for kind, layers in attention_layers(config).items()
    }
