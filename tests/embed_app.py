"""Routes of embeddings with a made-up model behind them: texts become words, and these vectors.

The model is all that is fake: reading, limits, formats, headers and errors are the product's, which
is enough to see whether clients of these shapes get what was computed.
"""

import zlib
from collections.abc import Sequence
from typing import TypeVar

import numpy as np
from fastapi import FastAPI, Request
from starlette.exceptions import HTTPException
from starlette.responses import Response

from service.chunks import json_chunks, json_response
from service.embed_formats import (
    EmbedUsage,
    Vectors,
    compute_headers,
    cosines,
    embeddings_chunks,
)
from service.embed_limits import (
    OPENAI_MAX_INPUTS,
    check_dimensions,
    check_ids,
    check_num_inputs,
    check_num_tokens,
    find_long,
)
from service.embed_schemas import (
    EmbedAllRequest,
    EmbeddingsRequest,
    EmbedParameters,
    EmbedRequest,
    Input,
    SimilarityRequest,
)
from service.errors import NotFoundError, OverloadedError, ServiceError
from service.metrics import Metrics
from service.middleware import RequestMiddleware
from service.parameters import read_parameters
from service.replies import handle_http_exception, handle_service_error

MODEL = "made-up"
DIMENSIONS = 24
VOCAB_SIZE = 1000
MAX_TOKENS = 8
MAX_REQUEST_TOKENS = 20_000
MAX_BODY_BYTES = 2**20
NUM_SPECIAL = 2

Asked = TypeVar("Asked", EmbedRequest, EmbedAllRequest, EmbeddingsRequest, SimilarityRequest)


def words_of(text: Input) -> list[str] | list[int]:
    return text.split() if isinstance(text, str) else text


def token_vectors(text: Input, direction: str = "right") -> Vectors:
    """(tokens, D), one for each word that is kept; the same word has the same one."""
    words, room = words_of(text), MAX_TOKENS - NUM_SPECIAL
    kept = words[:room] if direction == "right" else words[-room:]
    rows = [np.random.default_rng(zlib.crc32(str(word).encode())) for word in kept]
    return np.stack([row.standard_normal(DIMENSIONS, dtype=np.float32) for row in rows])


def text_vectors(
    texts: Sequence[Input], direction: str = "right", size: int = DIMENSIONS
) -> Vectors:
    """(n, D), of length 1."""
    means = np.stack([token_vectors(text, direction).mean(axis=0)[:size] for text in texts])
    scaled: Vectors = means / np.linalg.norm(means, axis=1, keepdims=True)
    return scaled


def usage_of(texts: Sequence[Input], reading: EmbedParameters, param: str) -> EmbedUsage:
    """What reading takes, where that is allowed."""
    check_num_inputs(texts, OPENAI_MAX_INPUTS, param)
    check_ids(texts, VOCAB_SIZE, param)
    lengths = [len(words_of(text)) + NUM_SPECIAL for text in texts]
    long = find_long(lengths, MAX_TOKENS, reading.truncate, param)
    num_tokens = [min(length, MAX_TOKENS) for length in lengths]
    check_num_tokens(num_tokens, MAX_REQUEST_TOKENS, param)
    return EmbedUsage(sum(map(len, texts)), num_tokens, long, "cpu")


def headers_of(request: Request, usage: EmbedUsage) -> dict[str, str]:
    return compute_headers(usage, request.state.context.stages, 0.0)


async def read(request: Request, kind: type[Asked]) -> Asked:
    asked = await read_parameters(request, kind, MAX_BODY_BYTES)
    if asked.model == "busy":
        raise OverloadedError("1024 requests are waiting already; try again in 7 s", 7, "requests")
    if asked.model not in (None, MODEL):
        raise NotFoundError(f"there is no such model; there is: {MODEL}", param="model")
    return asked


async def embed(request: Request) -> Response:
    asked = await read(request, EmbedRequest)
    usage = usage_of(asked.inputs, asked, "inputs")
    size = check_dimensions(asked.dimensions, DIMENSIONS)
    vectors = text_vectors(asked.inputs, asked.truncation_direction, size)
    return json_response(json_chunks(vectors), headers_of(request, usage))


async def embed_all(request: Request) -> Response:
    asked = await read(request, EmbedAllRequest)
    usage = usage_of(asked.inputs, asked, "inputs")
    vectors = [token_vectors(text) for text in asked.inputs]
    return json_response(json_chunks(vectors), headers_of(request, usage))


async def similarity(request: Request) -> Response:
    asked = await read(request, SimilarityRequest)
    usage = usage_of(asked.texts, asked.reading, "inputs")
    alike = cosines(text_vectors(asked.texts))
    return json_response(json_chunks(alike), headers_of(request, usage))


async def embeddings(request: Request) -> Response:
    asked = await read(request, EmbeddingsRequest)
    usage = usage_of(asked.input, asked, "input")
    size = check_dimensions(asked.dimensions, DIMENSIONS)
    vectors = text_vectors(asked.input, asked.truncation_direction, size)
    chunks = embeddings_chunks(vectors, MODEL, usage, asked.encoding_format)
    return json_response(chunks, headers_of(request, usage))


def create_embed_app() -> FastAPI:
    """The application."""
    app = FastAPI()
    for path, route in {
        "/embed": embed,
        "/embed_all": embed_all,
        "/similarity": similarity,
        "/v1/embeddings": embeddings,
    }.items():
        app.add_route(path, route, methods=["POST"])
    app.add_exception_handler(ServiceError, handle_service_error)
    app.add_exception_handler(HTTPException, handle_http_exception)
    app.add_middleware(RequestMiddleware, recorder=Metrics())
    return app
