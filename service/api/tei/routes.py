"""Serves /, /embed, /embed_all and /similarity with the requests and responses of TEI.

TEI is Hugging Face's Text Embeddings Inference. DIALECT adds TEI's other routes and error shape.
"""

from fastapi import APIRouter, Request
from starlette.responses import Response

from service.api.context import context_of, services_of
from service.api.dialect import Dialect
from service.api.request.parameters import request_body
from service.api.request.reading import (
    read_parameters,
    read_permitted,
    unless_disconnected,
    validated,
)
from service.api.responses import json_chunks, num_bytes_of
from service.api.tei import info, scores, tokens
from service.api.tei.errors import TEI_ERRORS, tei_shape
from service.api.tei.schemas import (
    EmbedAllRequest,
    EmbedAllResponse,
    EmbedRequest,
    EmbedResponse,
    SimilarityRequest,
    SimilarityResponse,
)
from service.api.tei.scores import Rank, RerankRequest
from service.api.vectors import cosines, embed_response
from service.items import EMBED, RERANK
from service.models.served import ServedReranker
from service.tasks.embedding.query import EmbedQuery

router = APIRouter(tags=["embeddings"], responses=TEI_ERRORS)


@router.post("/embed", response_model=EmbedResponse, openapi_extra=request_body(EmbedRequest))
async def embed(request: Request) -> Response:
    """Returns a vector for each text."""
    with context_of(request).stage("validate"):
        query = (await read_parameters(request, EmbedRequest)).query()
    return await vectors(request, query)


async def vectors(request: Request, query: EmbedQuery) -> Response:
    services, context = services_of(request), context_of(request)
    context.num_inputs = len(query.inputs)
    found = await unless_disconnected(request, services.embedder.embed(query, context))
    return embed_response(
        json_chunks(found.vectors), num_bytes_of(found.vectors), found.usage, context
    )


@router.post(
    "/embed_all", response_model=EmbedAllResponse, openapi_extra=request_body(EmbedAllRequest)
)
async def embed_all(request: Request) -> Response:
    """Returns a vector for each token of each text, special tokens included.

    The vectors are neither pooled nor scaled.
    """
    services, context = services_of(request), context_of(request)
    with context.stage("validate"):
        body = await read_parameters(request, EmbedAllRequest)
        query = body.query()
        context.num_inputs = len(query.inputs)
    work = services.embedder.embed_tokens(query, context)
    vectors, usage = await unless_disconnected(request, work)
    return embed_response(json_chunks(vectors), num_bytes_of(vectors), usage, context)


@router.post(
    "/similarity", response_model=SimilarityResponse, openapi_extra=request_body(SimilarityRequest)
)
async def similarity(request: Request) -> Response:
    """Returns the cosine similarity of the source sentence and each other sentence."""
    with context_of(request).stage("validate"):
        query = (await read_parameters(request, SimilarityRequest)).query()
    return await similarities(request, query)


async def similarities(request: Request, query: EmbedQuery) -> Response:
    services, context = services_of(request), context_of(request)
    context.num_inputs = len(query.inputs)
    found = await unless_disconnected(request, services.embedder.embed(query, context))
    values = cosines(found.vectors)
    return embed_response(json_chunks(values), num_bytes_of(values), found.usage, context)


@router.post(
    "/",
    response_model=EmbedResponse | SimilarityResponse | list[Rank],
    openapi_extra=request_body(EmbedRequest),
)
async def default(request: Request) -> Response:
    """Returns the reply of /embed, /similarity or /rerank.

    A server with cross-encoders and without embedding models answers as /rerank. Any other server
    answers as /similarity if `inputs` is an object, and else as /embed. Clients that know only the
    base address of a model send all their requests here.
    """
    services = services_of(request)
    with context_of(request).stage("validate"):
        fields = await read_permitted(request)
    catalog = services.catalog
    if catalog.of_type(ServedReranker) and not catalog.embedders:
        return await scores.rank(request, validated(request, fields, RerankRequest))
    if isinstance(fields.get("inputs"), dict):
        return await similarities(request, validated(request, fields, SimilarityRequest).query())
    return await vectors(request, validated(request, fields, EmbedRequest).query())


DIALECT = Dialect(
    (router, scores.router, tokens.router, info.router),
    tasks={
        **dict.fromkeys(("/", "/embed", "/embed_all", "/similarity"), EMBED),
        **dict.fromkeys(("/rerank", "/predict"), RERANK),
    },
    error_shape=tei_shape,
    scope="embed",
)
