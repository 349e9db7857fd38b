"""The routes of Ollama that embed texts and that list models.

Ollama adds the tag `:latest` to a name without a tag; both forms name the served model.

Source: https://docs.ollama.com/api; ollama/ollama, api/types.go.
"""

import time
from datetime import UTC, datetime
from importlib.metadata import version
from typing import Annotated, Any

from fastapi import APIRouter, Request
from pydantic import AfterValidator, BaseModel, Field
from starlette.responses import Response

from service.api import error_texts
from service.api.context import HttpContext, context_of
from service.api.dialect import Dialect
from service.api.errors import responses_of, status_of
from service.api.openai.errors import STATUSES
from service.api.openai.models import EmbedderBody, find_model, shown_models
from service.api.request.handlers import route
from service.api.vectors import embed, json_of_vectors
from service.errors import ServiceError
from service.items import EMBED
from service.tasks.context import RequestContext
from service.tasks.embedding.inputs import (
    DEFAULT_PARAMETERS,
    DIMENSIONS,
    EmbedParameters,
    EmbedQuery,
    ModelName,
)
from service.tasks.parameters import ListOf, Natural, Parameters, example

LATEST = ":latest"


class OllamaErrorBody(BaseModel):
    model_config = example(error="there is no model a that embeds; there are all-MiniLM-L6-v2")

    error: str = Field(description="The fault, with the value, the limit and the remedy.")


OLLAMA_ERRORS = responses_of(OllamaErrorBody, 400, 401, 403, 404, 413, 429, 500, 503, 504)


def ollama_shape(error: ServiceError, _context: RequestContext) -> tuple[int, dict[str, Any]]:
    return status_of(error, STATUSES), {"error": error.joined}


def untagged(name: str | None) -> str | None:
    return name and name.removesuffix(LATEST)


TaggedName = Annotated[ModelName, AfterValidator(untagged)]
MODEL: Any = Field(None, description="Name as in /api/tags; by default the first embedding model.")


class OllamaEmbedRequest(EmbedParameters):
    """The body of `POST /api/embed`. `options` and `keep_alive` are ignored."""

    model_config = example(model="all-MiniLM-L6-v2", input=["A cat.", "A dog."])

    input: str | ListOf[str] = Field(description="One text or a list.")
    model: TaggedName = MODEL
    dimensions: Natural | None = DIMENSIONS


class OllamaEmbedResponse(BaseModel):
    model: str
    embeddings: list[list[float]]
    total_duration: int = Field(description="Time until the vectors were computed, in ns.")
    load_duration: int = Field(description="Always 0; `total_duration` includes a load.")
    prompt_eval_count: int = Field(description="Tokens that the model has read.")


class OllamaPromptRequest(Parameters):
    """The body of `POST /api/embeddings`, Ollama's older route for one text."""

    model_config = example(model="all-MiniLM-L6-v2", prompt="A cat.")

    prompt: str = Field(description="The text.")
    model: TaggedName = MODEL


class OllamaPromptResponse(BaseModel):
    embedding: list[float]


router = APIRouter(tags=["embeddings"], responses=OLLAMA_ERRORS)
model_routes = APIRouter(tags=["models"])


@route(router.post, "/api/embed", OllamaEmbedResponse)
async def embed_inputs(context: HttpContext, body: OllamaEmbedRequest) -> Response:
    """Returns a vector for each text, in Ollama's form."""
    inputs = [body.input] if isinstance(body.input, str) else body.input
    query = EmbedQuery(inputs, "input", body, body.model, body.dimensions or None)
    found, usage = await embed(context, query)
    reply = {
        "model": context.model,
        "embeddings": found,
        "total_duration": int(1e9 * (time.perf_counter() - context.started)),
        "load_duration": 0,
        "prompt_eval_count": sum(usage.num_tokens),
    }
    return json_of_vectors(reply, usage, context)


@route(router.post, "/api/embeddings", OllamaPromptResponse)
async def embed_prompt(context: HttpContext, body: OllamaPromptRequest) -> Response:
    """Returns the vector of one text, in Ollama's older form."""
    query = EmbedQuery([body.prompt], "prompt", DEFAULT_PARAMETERS, body.model)
    found, usage = await embed(context, query)
    return json_of_vectors({"embedding": found[0]}, usage, context)


class OllamaDetails(BaseModel):
    """Facts about the files of a model. Ollama's formats and families do not apply."""

    parent_model: str = ""
    format: str = "regard"
    family: str = "embed"
    families: list[str] = ["embed"]
    parameter_size: str = ""
    quantization_level: str = Field(description="The precision; empty while the model loads.")


class OllamaModel(BaseModel):
    name: str
    model: str
    modified_at: datetime = Field(description="Start of the server.")
    size: int = 0
    digest: str = Field(
        description="First digits of the sha256 sum of the weights; empty unless they are loaded."
    )
    details: OllamaDetails


class OllamaTags(BaseModel):
    models: list[OllamaModel]


class OllamaShowRequest(Parameters):
    model_config = example(model="all-MiniLM-L6-v2")

    model: TaggedName = Field(None, description="Name as in /api/tags.")
    name: TaggedName = Field(None, description="Older name of `model`.")


class OllamaShow(BaseModel):
    modified_at: datetime
    details: OllamaDetails
    model_info: dict[str, int | str] = Field(description="Sizes of the model.")
    capabilities: list[str] = ["embedding"]


async def embedders(context: HttpContext) -> list[EmbedderBody]:
    found = await shown_models(context)
    return [each for each in found if isinstance(each, EmbedderBody)]


def details_of(body: EmbedderBody) -> OllamaDetails:
    return OllamaDetails(quantization_level=body.dtype or "")


@model_routes.get("/api/tags")
async def tags(request: Request) -> OllamaTags:
    """Lists the embedding models and their aliases, in Ollama's form."""
    return OllamaTags(
        models=[
            OllamaModel(
                name=name,
                model=name,
                modified_at=datetime.fromtimestamp(body.created, UTC),
                digest=body.revision or "",
                details=details_of(body),
            )
            for body in await embedders(context_of(request))
            for name in [body.id if ":" in body.id else body.id + LATEST]
        ]
    )


@route(model_routes.post, "/api/show", OllamaShow, responses=OLLAMA_ERRORS)
async def show(context: HttpContext, asked: OllamaShowRequest) -> OllamaShow:
    """Returns one embedding model, in Ollama's form."""
    name = asked.model or asked.name
    if name is None:
        raise error_texts.missing("model")
    body = find_model(name, await embedders(context))
    return OllamaShow(
        modified_at=datetime.fromtimestamp(body.created, UTC),
        details=details_of(body),
        model_info={
            "general.architecture": "embed",
            "embed.embedding_length": body.dimensions,
            "embed.context_length": body.max_tokens,
        },
    )


@model_routes.get("/api/version")
async def version_of_server() -> dict[str, str]:
    """Returns the version of Regard."""
    return {"version": version("regard")}


DIALECT = Dialect(
    (router, model_routes),
    tasks=dict.fromkeys(("/api/embed", "/api/embeddings"), EMBED),
    prefixes=("/api/",),
    error_shape=ollama_shape,
    scope="embed",
)
