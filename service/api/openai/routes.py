"""Serves POST /v1/embeddings and POST /embeddings, and defines the dialect of OpenAI."""

from fastapi import APIRouter, Request
from starlette.responses import Response

from service.api.context import context_of, services_of
from service.api.dialect import Dialect
from service.api.openai import models
from service.api.openai.errors import OPENAI_ERRORS, openai_shape
from service.api.openai.schemas import EmbeddingsRequest, EmbeddingsResponse, refuse_ids
from service.api.request.parameters import request_body
from service.api.request.reading import read_parameters, unless_disconnected
from service.api.responses import num_bytes_of
from service.api.vectors import embed_response, embeddings_chunks

router = APIRouter(tags=["embeddings"], responses=OPENAI_ERRORS)


@router.post(
    "/embeddings",
    response_model=EmbeddingsResponse,
    response_model_exclude_none=True,
    openapi_extra=request_body(EmbeddingsRequest),
    operation_id="embeddings_of_tei",
)
@router.post(
    "/v1/embeddings",
    response_model=EmbeddingsResponse,
    response_model_exclude_none=True,
    openapi_extra=request_body(EmbeddingsRequest),
)
async def embeddings(request: Request) -> Response:
    """Returns a vector for each text, in OpenAI's shape."""
    services, context = services_of(request), context_of(request)
    with context.stage("validate"):
        body = await read_parameters(request, EmbeddingsRequest)
        if not services.settings.openai_token_ids:
            refuse_ids(body.input)
        query = body.query()
        context.num_inputs = len(query.inputs)
    found = await unless_disconnected(request, services.embedder.embed(query, context))
    chunks = embeddings_chunks(found.vectors, found.model, found.usage, body.encoding_format)
    return embed_response(chunks, num_bytes_of(found.vectors), found.usage, context)


DIALECT = Dialect(
    (router, models.router),
    tasks=dict.fromkeys(("/embeddings", "/v1/embeddings"), "embed"),
    prefix="/v1/",
    error_shape=openai_shape,
    scope="embed",
)
