"""POST /, /embed, /embed_all and /similarity in TEI's shapes, and the dialect of TEI."""

from fastapi import APIRouter, Request
from starlette.responses import Response

from service.api.dialect import Dialect
from service.api.request.disconnect import unless_disconnected
from service.api.request.openapi import request_body
from service.api.request.parameters import read_parameters
from service.api.responses import json_chunks
from service.api.services import context_of, services_of
from service.api.tei import info, predict, rerank, tokens
from service.api.tei.errors import TEI_ERRORS, tei_shape
from service.api.tei.formats import cosines, embed_response
from service.api.tei.rerank import Rank
from service.api.tei.schemas import (
    EmbedAllRequest,
    EmbedAllResponse,
    EmbedRequest,
    EmbedResponse,
    SimilarityRequest,
    SimilarityResponse,
)
from service.items.embedding import EMBED
from service.items.rerank import RERANK
from service.models.served_reranker import ServedReranker

router = APIRouter(tags=["embeddings"])


@router.post(
    "/embed",
    response_model=EmbedResponse,
    responses=TEI_ERRORS,
    openapi_extra=request_body(EmbedRequest),
)
async def embed(request: Request) -> Response:
    """Returns a vector for each text."""
    services, context = services_of(request), context_of(request)
    with context.stage("validate"):
        body = await read_parameters(request, EmbedRequest, services.settings.max_body_bytes)
        query = body.query()
        context.num_inputs = len(query.inputs)
    found = await unless_disconnected(request, services.embedder.embed(query, context))
    return embed_response(json_chunks(found.vectors), found.usage, context)


@router.post(
    "/embed_all",
    response_model=EmbedAllResponse,
    responses=TEI_ERRORS,
    openapi_extra=request_body(EmbedAllRequest),
)
async def embed_all(request: Request) -> Response:
    """Returns a vector for each token of each text, special tokens included.

    The vectors are neither pooled nor scaled.
    """
    services, context = services_of(request), context_of(request)
    with context.stage("validate"):
        body = await read_parameters(request, EmbedAllRequest, services.settings.max_body_bytes)
        query = body.query()
        context.num_inputs = len(query.inputs)
    work = services.embedder.embed_tokens(query, context)
    vectors, usage = await unless_disconnected(request, work)
    return embed_response(json_chunks(vectors), usage, context)


@router.post(
    "/similarity",
    response_model=SimilarityResponse,
    responses=TEI_ERRORS,
    openapi_extra=request_body(SimilarityRequest),
)
async def similarity(request: Request) -> Response:
    """Returns the cosine of a sentence's vector with the vector of each of the other sentences."""
    services, context = services_of(request), context_of(request)
    with context.stage("validate"):
        body = await read_parameters(request, SimilarityRequest, services.settings.max_body_bytes)
        query = body.query()
        context.num_inputs = len(query.inputs)
    found = await unless_disconnected(request, services.embedder.embed(query, context))
    return embed_response(json_chunks(cosines(found.vectors)), found.usage, context)


@router.post(
    "/",
    response_model=EmbedResponse | list[Rank],
    responses=TEI_ERRORS,
    openapi_extra=request_body(EmbedRequest),
)
async def default(request: Request) -> Response:
    """Returns the reply of /embed, or of /rerank on a server with only cross-encoders."""
    catalog = services_of(request).catalog
    if catalog.of_type(ServedReranker) and not catalog.embedders:
        return await rerank.rerank(request)
    return await embed(request)


DIALECT = Dialect(
    (router, rerank.router, predict.router, tokens.router, info.router),
    tasks={
        **dict.fromkeys(("/", "/embed", "/embed_all", "/similarity"), EMBED),
        **dict.fromkeys(("/rerank", "/predict"), RERANK),
    },
    direct={("POST", "/embed"): embed},
    error_shape=tei_shape,
)
