"""Computes embeddings and cosines, and builds responses with the headers of TEI.

Each number in JSON is the shortest decimal that rounds to the float32 value. A client therefore
gets the same values from JSON as from base64. TEI is Text Embeddings Inference, a server.
"""

import binascii
import time
from collections.abc import Iterator, Mapping
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from starlette.responses import Response

from service.api.context import HttpContext
from service.api.responses import json_chunks, json_response, num_bytes_of
from service.tasks.context import RequestContext
from service.tasks.embedding.embedder import EmbedUsage, Vectors
from service.tasks.embedding.inputs import EmbedQuery

TRUNCATED_HEADER = "X-Truncated-Inputs"

NumberType = Literal["float", "int8", "uint8", "binary", "ubinary"]
EmbeddingType = Literal[NumberType, "base64"]


async def embed(context: HttpContext, query: EmbedQuery) -> tuple[Vectors, EmbedUsage]:
    context.num_inputs = len(query.inputs)
    return await context.services.embedder.embed(query, context)


def embed_response(
    chunks: Iterator[bytes], num_bytes: int, usage: EmbedUsage, context: RequestContext
) -> Response:
    start = time.perf_counter()
    headers = compute_headers(usage, context.stages, start - context.started)
    response = json_response(chunks, num_bytes, headers)
    context.add("serialize", time.perf_counter() - start)
    return response


def json_of_vectors(body: Any, usage: EmbedUsage, context: RequestContext) -> Response:
    return embed_response(json_chunks(body), num_bytes_of(body), usage, context)


def base64_of(vector: NDArray[Any]) -> bytes:
    """Returns little-endian values as base64."""
    values = np.ascontiguousarray(vector, dtype=vector.dtype.newbyteorder("<"))
    return binascii.b2a_base64(values.data, newline=False)


def converted(found: Vectors, name: NumberType) -> NDArray[Any]:
    """Returns the vectors (n, D) as another type of numbers; each vector by itself.

    int8: the largest absolute value of a vector becomes 127. uint8 is int8 + 128. Binary: a bit is
    1 for a value above 0, and 8 bits are a byte. A signed byte is the unsigned byte - 128.
    """
    if name == "float":
        return found
    if name in ("binary", "ubinary"):
        unsigned: NDArray[Any] = np.packbits(found > 0, axis=1)
        return unsigned if name == "ubinary" else (unsigned ^ 0x80).view(np.int8)
    largest = np.abs(found).max(axis=1, keepdims=True)
    scaled = np.divide(127 * found, largest, out=np.zeros_like(found), where=largest > 0)
    signed: NDArray[Any] = np.rint(scaled).astype(np.int8)
    return signed if name == "int8" else signed.view(np.uint8) ^ 0x80


def cosines(vectors: Vectors) -> Vectors:
    """Returns the cosines of the first vector with all others; that of a vector of zeros is 0."""
    products = np.einsum("nd,d->n", vectors[1:], vectors[0])
    squares = np.einsum("nd,nd->n", vectors, vectors)
    lengths = np.sqrt(squares[1:]) * np.sqrt(squares[0])
    alike = np.divide(products, lengths, out=np.zeros_like(products), where=lengths > 0)
    clipped: Vectors = np.clip(alike, -1, 1)  # rounding may give 1.0000001
    return clipped


def compute_headers(
    usage: EmbedUsage, stages: Mapping[str, float], total_seconds: float
) -> dict[str, str]:
    """Returns TEI's headers with times in milliseconds, and the number of truncated inputs.

    `x-compute-time` and `x-total-time` both have the total time, as in TEI.

    Source: router/src/lib.rs of TEI, `From<ResponseMetadata> for HeaderMap`. TEI
        reports every device as `gpu+optimized`; Regard reports `cpu` or `gpu`.
    """
    seconds = {
        "x-compute-time": total_seconds,
        "x-total-time": total_seconds,
        "x-tokenization-time": stages.get("tokenize", 0.0),
        "x-queue-time": stages.get("queue", 0.0),
        "x-inference-time": stages.get("device", 0.0),
    }
    return {
        "x-compute-type": "cpu" if usage.device == "cpu" else "gpu",
        "x-compute-characters": str(usage.num_chars),
        "x-compute-tokens": str(sum(usage.num_tokens)),
        **{name: str(int(1000 * value)) for name, value in seconds.items()},
        TRUNCATED_HEADER: str(len(usage.truncated)),
    }
