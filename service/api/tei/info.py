"""GET /info and GET /ping, as in TEI (Text Embeddings Inference).

Source: TEI, docs/openapi.json at a28ad28f39e0633749a21b74af23617fa86a0d0c, `Info`.
"""

from importlib.metadata import version

from fastapi import APIRouter, Request
from pydantic import BaseModel, Field
from starlette.responses import Response

from model.config import EmbeddingConfig, Pooling
from service.api import health
from service.api.context import services_of
from service.api.tei.errors import TeiErrorBody
from service.errors import UnavailableError
from service.ipc.machine import http_workers
from service.models.served import ServedReranker
from service.tasks.vocabulary import ServedReader, find_reader

router = APIRouter(tags=["operation"])

POOLING = {Pooling.LAST_TOKEN: "last_token"}
"""TEI's names of the pooling types that have another name in Regard."""

UNAVAILABLE: dict[int | str, dict[str, type[BaseModel]]] = {503: {"model": TeiErrorBody}}
NO_MODEL: dict[int | str, dict[str, type[BaseModel]]] = {424: {"model": TeiErrorBody}}


class EmbeddingType(BaseModel):
    """The type of an embedding model."""

    pooling: str = Field(description="How the vectors of tokens are joined into one vector.")


class RerankerType(BaseModel):
    """The type of a cross-encoder."""

    id2label: dict[str, str]
    label2id: dict[str, int]


class ModelType(BaseModel):
    """The type of a model. Exactly one of the two fields is present."""

    embedding: EmbeddingType | None = None
    reranker: RerankerType | None = None


class Info(BaseModel):
    """The default model of TEI's routes, and the limits of the server."""

    model_id: str
    model_sha: str | None = Field(description="First digits of the sha256 sum of the weights.")
    model_dtype: str
    model_type: ModelType
    max_concurrent_requests: int
    max_input_length: int = Field(description="Largest number of tokens of a text.")
    max_batch_tokens: int
    max_batch_requests: int | None
    max_client_batch_size: int = Field(description="Largest number of texts of a request.")
    auto_truncate: bool = Field(description="True, because /embed truncates by default.")
    tokenization_workers: int
    version: str
    sha: str | None
    docker_label: str | None


@router.get("/info", response_model_exclude_unset=True, responses={**NO_MODEL, **UNAVAILABLE})
async def info(request: Request) -> Info:
    """Returns the limits of the server and the default model.

    The default is the first embedding model. Without embedding models, it is the first
    cross-encoder.
    """
    services = services_of(request)
    served, settings = find_reader(services.catalog, None), services.settings
    resident = (await services.backend.status()).resident(served.name)
    if resident is None:
        raise UnavailableError("the models are loading", 1)
    return Info(
        model_id=served.name,
        model_sha=served.files.revision,
        model_dtype=resident.dtype,
        model_type=model_type(served),
        max_concurrent_requests=settings.max_pending_requests,
        max_input_length=model_config(served).max_tokens,
        max_batch_tokens=settings.max_batch_tokens,
        max_batch_requests=None,
        max_client_batch_size=settings.max_inputs,
        auto_truncate=True,
        tokenization_workers=http_workers(settings.http_workers, settings.device),
        version=version("regard"),
        sha=None,
        docker_label=None,
    )


def model_config(served: ServedReader) -> EmbeddingConfig:
    return served.config.model if isinstance(served, ServedReranker) else served.config


def model_type(served: ServedReader) -> ModelType:
    if isinstance(served, ServedReranker):
        label = served.config.label
        return ModelType(reranker=RerankerType(id2label={"0": label}, label2id={label: 0}))
    names = [POOLING.get(each, each.value) for each in served.config.pooling]
    return ModelType(embedding=EmbeddingType(pooling="+".join(names)))


@router.get("/ping", status_code=200, response_class=Response, responses=UNAVAILABLE)
async def ping(request: Request) -> Response:
    """Returns an empty reply, or 503 if the server does not accept requests that run a model."""
    await health.ready(request)
    return Response()
