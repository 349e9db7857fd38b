"""The models under /v1/models: the list, and loading and unloading with an admin key."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated, Any, Literal, TypeVar

from fastapi import APIRouter, Path, Request
from pydantic import BaseModel, Field
from starlette.responses import Response

from model.config import ModelConfig
from model.inspection.query import InspectedConfig, attention_layers
from service.api.context import HttpContext, Services, context_of
from service.api.errors import responses_of
from service.api.keys import given_key
from service.api.openai.errors import OpenAIErrorBody
from service.api.request.body import read_fields
from service.api.request.parameters import described
from service.api.request.reading import validated
from service.api.responses import JSONResponse
from service.errors import SHOWN_CHARS, ForbiddenError, NotFoundError, UnauthorizedError
from service.models.catalog import Catalog
from service.models.remote import ServedRemote
from service.models.served import (
    AnyServed,
    ModelState,
    NotLoadedError,
    ServedEmbedder,
    ServedModel,
    ServedReranker,
)
from service.settings.keys import ADMIN
from service.tasks.attention.query import default_shift
from service.tasks.backend import Status
from service.tasks.parameters import Parameters, example

router = APIRouter(tags=["models"])


class AttentionSizeBody(BaseModel):
    layers: int
    heads: int = Field(description="Number of heads of each layer.")


class AlignmentBody(BaseModel):
    """The cross-attention that aligns words by default."""

    layer: int
    head: int | Literal["mean"] = Field(description="`mean` is the mean over the layer's heads.")
    shift: int = Field(
        description="The token that a row of attention aligns. 0 is the token that the decoder "
        "predicts in the row's decode step. 1 is the token that the decoder reads in this step."
    )


class ListedBody(BaseModel):
    """The fields of every entry of the list, in OpenAI's shape."""

    id: str
    state: ModelState = Field(
        description="`loading` until the model is loaded, then `ready`. `available` until a "
        "request loads a model on demand. `failed` if loading has failed."
    )
    object: Literal["model"] = "model"
    created: int = Field(description="Start of the server, in Unix seconds.")
    owned_by: str = "regard"


class ServedBody(ListedBody):
    """The fields of every served model, in OpenAI's shape with additional fields of Regard."""

    alias_of: str | None = Field(
        None, description="Name of the model for which `id` is an alias; else null."
    )
    revision: str | None = Field(
        description="First digits of the sha256 sum of the weights. For a remote model, they come "
        "from the sha256 sum of its name and address. Null for an unloaded model."
    )
    device: str | None = Field(description="Null unless the model is loaded.")
    devices: list[str] = Field(
        description="Devices of the workers that have loaded the model, such as several GPUs."
    )
    dtype: str | None = Field(description="Null unless the model is loaded.")


class ModelBody(ServedBody):
    """A translation model, in OpenAI's shape with additional fields of Regard."""

    task: Literal["translate"] = "translate"
    source: str | None = Field(description="Source language; null for a model of several pairs.")
    target: str | None = Field(description="Target language; null for a model of several pairs.")
    sources: list[str] = Field(description="Source languages.")
    targets: list[str] = Field(
        description="Target languages; a text is not translated to its own language."
    )
    attention: dict[str, AttentionSizeBody] | None = Field(
        description="Kinds of attention that can be inspected: encoder, decoder, cross. Null "
        "unless the model is loaded, and empty for a remote model."
    )
    alignment: AlignmentBody | None = Field(
        description="The attention that aligns words by default. Null unless the model is loaded, "
        "and for a remote model."
    )


class EmbedderBody(ServedBody):
    """An embedding model, in OpenAI's shape with additional fields of Regard."""

    task: Literal["embed"] = "embed"
    dimensions: int = Field(description="Number of values of a vector.")
    max_tokens: int = Field(
        description="Maximum number of tokens of a text, special tokens included. Longer texts are "
        "truncated or refused."
    )
    prompts: list[str] = Field(description="Names of the prompts that may precede a text.")
    attention: dict[str, AttentionSizeBody] | None = Field(
        description="Kinds of attention that can be inspected: encoder. Null unless the model is "
        "loaded."
    )


class RerankerBody(ServedBody):
    """A cross-encoder, in OpenAI's shape with additional fields of Regard."""

    task: Literal["rerank"] = "rerank"
    attention: dict[str, AttentionSizeBody] | None = Field(
        description="Kinds of attention that can be inspected: encoder. Null unless the model is "
        "loaded."
    )


class ChangingBody(ListedBody):
    """A model that is loaded or unloaded just now or on demand, or whose loading failed."""

    error: str | None = Field(
        None,
        description="The reason why loading failed, or null. Only requests with an admin key get "
        "the reason, because it may name files of the server.",
    )


class PairBody(ListedBody):
    """A language pair that chat completions accept as a model, such as `en-es`.

    No model has its name.
    """

    task: Literal["chat"] = "chat"
    source: str
    target: str


AnyModelBody = ModelBody | EmbedderBody | RerankerBody | ChangingBody | PairBody
Body = TypeVar("Body", bound=AnyModelBody)

MAX_PAIRS = 200
"""Largest number of pairs that the list has as models. A model of 100 languages has 9,900."""


class ModelList(BaseModel):
    object: Literal["list"] = "list"
    data: list[AnyModelBody]


ModelId = Annotated[str, Path(max_length=128, description="Name of the model.")]


@router.get("/v1/models")
async def models(request: Request) -> ModelList:
    """Lists the models with device and precision. An admin key adds the reasons of failed loads."""
    return ModelList(data=await shown_models(context_of(request)))


@router.get("/v1/models/{id:path}", responses=responses_of(OpenAIErrorBody, "4XX"))
async def model(id: ModelId, request: Request) -> AnyModelBody:
    """Returns one model."""
    return find_model(id, await shown_models(context_of(request)))


def is_admin(context: HttpContext) -> bool:
    key = context.services.keys.find(given_key(context.headers, {}))
    return key is not None and ADMIN in key.scopes


async def shown_models(context: HttpContext) -> list[AnyModelBody]:
    """Returns all models; only a request with an admin key gets the reasons of failures."""
    status = await context.services.backend.status()
    if not is_admin(context):
        status = replace(status, failures={})
    return all_models(context.services, status)


def all_models(services: Services, status: Status) -> list[AnyModelBody]:
    catalog = services.catalog
    served = [
        model_body(each, services, status)
        for name, each in catalog.served.items()
        if status.changes.get(name) != "failed"
    ]
    served += [
        model_body(catalog.served[name], services, status, alias)
        for alias, name in catalog.aliases.items()
        if name in catalog.served and alias not in catalog.served
    ]
    names = {each.id for each in served}
    states: dict[str, ModelState] = dict.fromkeys(catalog.on_demand, "available")
    served += [
        ChangingBody(
            id=name, created=services.started, state=state, error=status.failures.get(name)
        )
        for name, state in (states | status.changes).items()
        if name not in names
    ]
    pairs = pairs_of(catalog)
    return served + [
        PairBody(id=name, created=services.started, state=state, source=source, target=target)
        for name, (source, target) in (pairs.items() if len(pairs) <= MAX_PAIRS else ())
        if name not in names | states.keys() | status.changes.keys()
        for state in [state_of(source, target, catalog, status)]
    ]


def pairs_of(catalog: Catalog) -> dict[str, tuple[str, str]]:
    """Returns the language pairs that can be translated, by a name such as `en-pt`."""
    return {
        f"{source}-{target}": (source, target)
        for source, targets in catalog.offers().items()
        for target in targets
        if source != target
    }


def state_of(source: str, target: str, catalog: Catalog, status: Status) -> ModelState:
    """Returns the state of a language pair; a remote model is always ready."""
    try:
        route = catalog.route(source, target)
    except NotLoadedError:
        return "available"
    is_ready = all(not each.has_attention or status.resident(each.name) for each in route)
    return "ready" if is_ready else "loading"


def find_model(name: str, models: Sequence[Body]) -> Body:
    for each in models:
        if each.id == name:
            return each
    known = ", ".join(each.id for each in models) or "none"
    raise NotFoundError(
        f"there is no model {name[:SHOWN_CHARS]}; there are: {known}", param="model"
    )


def model_body(
    served: AnyServed, services: Services, status: Status, alias: str | None = None
) -> AnyModelBody:
    resident = status.resident(served.name)
    state = "ready" if resident else "loading"
    is_loaded = served.name not in services.catalog.unloaded
    shared: dict[str, Any] = {
        "id": alias or served.name,
        "alias_of": alias and served.name,
        "state": state if is_loaded else status.changes.get(served.name, "available"),
        "created": services.started,
        # The revision of an unloaded model would take a long time: it reads all weights.
        "revision": served.files.revision if is_loaded else None,
        "device": resident.device if resident else None,
        "devices": sorted({each.device for each in status.models.get(served.name, [])}),
        "dtype": resident.dtype if resident else None,
    }
    config = resident.config if resident else None
    if isinstance(served, ServedModel | ServedRemote):
        attention = attention_sizes(config) if config else None
        if isinstance(served, ServedRemote):
            shared |= {"state": "ready", "device": "remote", "devices": [], "dtype": "unknown"}
            attention = {}
        return ModelBody(
            source=served.files.source or None,
            target=served.files.target or None,
            sources=sorted(served.files.sources),
            targets=sorted(served.files.targets),
            attention=attention,
            alignment=alignment_of(config) if config else None,
            **shared,
        )
    if isinstance(served, ServedEmbedder):
        encoder = served.config.encoder
        return EmbedderBody(
            dimensions=served.config.output_size,
            max_tokens=served.config.max_tokens,
            prompts=[*served.config.prompts],
            attention=attention_sizes(encoder) if resident and encoder.blocks else None,
            **shared,
        )
    assert isinstance(served, ServedReranker)
    encoder = served.config.model.encoder
    return RerankerBody(attention=attention_sizes(encoder) if resident else None, **shared)


def alignment_of(config: ModelConfig) -> AlignmentBody:
    layer, head = config.aligning_layer, config.aligning_head
    head_name: int | Literal["mean"] = "mean" if head is None else head
    return AlignmentBody(layer=layer, head=head_name, shift=default_shift(config, layer))


def attention_sizes(config: InspectedConfig) -> dict[str, AttentionSizeBody]:
    heads = config.num_heads
    return {
        kind.value: AttentionSizeBody(layers=layers, heads=heads)
        for kind, layers in attention_layers(config).items()
    }


ADMIN_ERRORS = responses_of(OpenAIErrorBody, 400, 401, 403, 404, 409, "4XX", 500, 503)
"""Error responses of the routes that load and unload models."""


class LoadRequest(Parameters):
    model_config = {**example(source="firefox:en-de"), "extra": "forbid"}

    source: str = Field(
        min_length=1, description="Reference to a model on the server's disk, as in REGARD_MODELS."
    )


class DeletedModel(BaseModel):
    id: str
    object: Literal["model"] = "model"
    deleted: bool = Field(description="False while the model is still being unloaded.")


def require_admin(context: HttpContext) -> None:
    if not context.services.keys.has_admin:
        raise ForbiddenError(
            "models are loaded and unloaded with an admin key, and this server has none: "
            "start it with REGARD_ADMIN_KEY"
        )
    if not is_admin(context):
        raise UnauthorizedError(
            "this request needs the server's REGARD_ADMIN_KEY, or a key with the scope admin, as "
            "`Authorization: Bearer …`"
        )


@router.post(
    "/v1/models/{id:path}",
    responses={
        **ADMIN_ERRORS,
        202: {"model": ChangingBody, "description": "The model is still loading."},
    },
    **described(LoadRequest, AnyModelBody),
)
async def load(id: ModelId, request: Request) -> Response:
    """Loads a model from the server's disk; the response comes when the model is ready.

    If the load takes longer than the time limit of a request, the response is 202 and the load
    continues. Other requests are served meanwhile.
    """
    services = context_of(request).services
    require_admin(context_of(request))
    fields = await read_fields(request)
    body = validated(fields, LoadRequest)
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
    services = context_of(request).services
    require_admin(context_of(request))
    state = await services.backend.unload_model(id)
    body = DeletedModel(id=id, deleted=state == "unloaded")
    return JSONResponse(body.model_dump(), 200 if state == "unloaded" else 202)
