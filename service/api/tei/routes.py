"""POST /embed, /embed_all and /similarity in TEI's shapes, POST /v1/embeddings in OpenAI's."""

import time
from collections.abc import Iterator

from fastapi import APIRouter, Request
from starlette.responses import Response

from service.api.disconnect import unless_disconnected
from service.api.json_chunks import json_chunks, json_response
from service.api.parameters import json_body_of, read_parameters
from service.api.responses import ERRORS, MISSING, OPENAI_ERRORS
from service.api.services import ContextDep, ServicesDep, get_context, get_services
from service.api.tei.formats import EmbedUsage, compute_headers, cosines, embeddings_chunks
from service.api.tei.schemas import (
    EmbedAllRequest,
    EmbedAllResponse,
    EmbeddingsRequest,
    EmbeddingsResponse,
    EmbedRequest,
    EmbedResponse,
    SimilarityRequest,
    SimilarityResponse,
)
from service.tasks.context import RequestContext
from service.tasks.embedding import EmbedWish

router = APIRouter(tags=["embeddings"])


def respond(chunks: Iterator[bytes], usage: EmbedUsage, context: RequestContext) -> Response:
    """The reply, with the headers that tell of the work."""
    start = time.perf_counter()
    headers = compute_headers(usage, context.stages, start - context.started)
    response = json_response(chunks, headers)
    context.add("serialize", time.perf_counter() - start)
    return response


@router.post(
    "/embed",
    response_model=EmbedResponse,
    responses={**ERRORS, **MISSING},
    openapi_extra=json_body_of(EmbedRequest),
)
async def embed(request: Request) -> Response:
    """A vector for each text."""
    services, context = await get_services(request), await get_context(request)
    with context.stage("validate"):
        body = await read_parameters(request, EmbedRequest, services.settings.max_body_bytes)
        context.num_inputs = len(body.inputs)
    wish = EmbedWish(body.inputs, "inputs", body, body.model, body.dimensions, body.normalize)
    found = await unless_disconnected(request, services.embedder.embed(wish, context))
    return respond(json_chunks(found.vectors), found.usage, context)


@router.post(
    "/embed_all",
    response_model=EmbedAllResponse,
    responses={**ERRORS, **MISSING},
    openapi_extra=json_body_of(EmbedAllRequest),
)
async def embed_all(request: Request, services: ServicesDep, context: ContextDep) -> Response:
    """A vector for each token of each text, special ones included, as it leaves the model."""
    with context.stage("validate"):
        body = await read_parameters(request, EmbedAllRequest, services.settings.max_body_bytes)
        context.num_inputs = len(body.inputs)
    wish = EmbedWish(body.inputs, "inputs", body, body.model, is_per_token=True)
    work = services.embedder.embed_tokens(wish, context)
    vectors, usage = await unless_disconnected(request, work)
    return respond(json_chunks(vectors), usage, context)


@router.post(
    "/similarity",
    response_model=SimilarityResponse,
    responses={**ERRORS, **MISSING},
    openapi_extra=json_body_of(SimilarityRequest),
)
async def similarity(request: Request, services: ServicesDep, context: ContextDep) -> Response:
    """How alike a sentence is to others: the cosine of its vector with each of theirs."""
    with context.stage("validate"):
        body = await read_parameters(request, SimilarityRequest, services.settings.max_body_bytes)
        context.num_inputs = len(body.texts)
    wish = EmbedWish(body.texts, "inputs", body.reading, body.model)
    found = await unless_disconnected(request, services.embedder.embed(wish, context))
    return respond(json_chunks(cosines(found.vectors)), found.usage, context)


@router.post(
    "/v1/embeddings",
    response_model=EmbeddingsResponse,
    response_model_exclude_none=True,
    responses=OPENAI_ERRORS,
    openapi_extra=json_body_of(EmbeddingsRequest),
)
async def embeddings(request: Request) -> Response:
    """A vector for each text, in OpenAI's shape."""
    services, context = await get_services(request), await get_context(request)
    with context.stage("validate"):
        body = await read_parameters(request, EmbeddingsRequest, services.settings.max_body_bytes)
        context.num_inputs = len(body.input)
    wish = EmbedWish(body.input, "input", body, body.model, body.dimensions)
    found = await unless_disconnected(request, services.embedder.embed(wish, context))
    chunks = embeddings_chunks(found.vectors, found.model, found.usage, body.encoding_format)
    return respond(chunks, found.usage, context)
