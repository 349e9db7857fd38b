"""GET /v1/models and GET /v1/models/{id}: the models, their state, device and precision."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Any

from fastapi import APIRouter, Path, Request

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
from service.errors import NotFoundError
from service.models.remote import ServedRemote
from service.models.served import AnyServed, ServedEmbedder, ServedModel
from service.settings.keys import ADMIN
from service.tasks.attention.query import default_shift
from service.tasks.backend import Status
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
    """Returns whether the headers of a request have a key with the scope `admin`."""
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
    """Returns the served models under all their names, then all other models.

    The other models are being loaded or unloaded, or could not be loaded.
    """
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
    """Returns the model with the given name.

    Raises:
        NotFoundError: There is no such model.
    """
    for each in models:
        if each.id == name:
            return each
    known = ", ".join(each.id for each in models) or "none"
    raise NotFoundError(f"there is no model {name}; there are: {known}", param="model")


def model_body(
    served: AnyServed, services: Services, status: Status, alias: str | None = None
) -> AnyModelBody:
    """Returns the description of a served model under its name or an alias."""
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
    """Returns the description of a translation model."""
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
    """Returns the description of a remote model.

    The state is always `ready`, because the server does not check whether the endpoint answers.
    """
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
    """Returns the description of an embedding model."""
    return EmbedderBody(
        dimensions=served.config.output_size,
        max_tokens=served.config.max_tokens,
        prompts=[*served.config.prompts],
        attention=attention_sizes(served.config.encoder) if resident else None,
        **shared,
    )


def attention_of(resident: Resident | None) -> dict[str, AttentionSizeBody] | None:
    """Returns the attention sizes of a translation model; None while the model loads."""
    return None if resident is None or resident.config is None else attention_sizes(resident.config)


def alignment_of(resident: Resident | None) -> AlignmentBody | None:
    """Returns the layer and head that align words by default; None while the model loads."""
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
    """Maps each kind of attention of a model to its numbers of layers and heads."""
    heads = config.num_heads
    return {
        kind.value: AttentionSizeBody(layers=layers, heads=heads)
        for kind, layers in attention_layers(config).items()
    }
