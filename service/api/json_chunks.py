"""Large JSON in chunks: one process answers all clients, and must not write megabytes in one go."""

import asyncio
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any

import numpy as np
import orjson
from numpy.typing import NDArray
from starlette.responses import Response, StreamingResponse

CHUNK_BYTES = 128 * 1024
"""A chunk of JSON ends when it has this size."""

PART_VALUES = 16 * 1024
"""So many numbers at most, or one row, are written in one go: some 0.5 ms."""


def json_response(chunks: Iterator[bytes], headers: Mapping[str, str] | None = None) -> Response:
    """A reply from chunks of JSON; where there are several, other requests are served between them.

    Args:
        chunks: At least one, each made when it is asked for, in a millisecond or so.
        headers: Beside those of every reply.
    """
    first, second = next(chunks), next(chunks, None)
    if second is None:
        return Response(first, headers=headers, media_type="application/json")
    all_chunks = chain([first, second], chunks)
    return StreamingResponse(one_by_one(all_chunks), headers=headers, media_type="application/json")


async def one_by_one(chunks: Iterator[bytes]) -> AsyncIterator[bytes]:
    """Chunks, with a turn of the loop for everyone else before each."""
    for chunk in chunks:
        await asyncio.sleep(0)
        yield chunk


def json_chunks(body: Mapping[str, Any] | Sequence[Any] | NDArray[Any]) -> Iterator[bytes]:
    """JSON of a body with arrays in it, in chunks that take a millisecond or so each.

    Args:
        body: Arrays may stand in objects, and in lists of nothing but objects or arrays.
    """
    return gather(_parts(body))


def gather(parts: Iterator[bytes]) -> Iterator[bytes]:
    """Joins parts to chunks of CHUNK_BYTES or a little more.

    Args:
        parts: Small ones, each made when it is asked for.
    """
    chunk = bytearray()
    for part in parts:
        chunk += part
        if len(chunk) >= CHUNK_BYTES:
            yield bytes(chunk)
            chunk.clear()
    if chunk:
        yield bytes(chunk)


def _parts(value: Any) -> Iterator[bytes]:
    if isinstance(value, np.ndarray):
        yield from _array_parts(value)
    elif isinstance(value, Mapping):
        mark = b"{"
        for name, member in value.items():
            yield mark + orjson.dumps(name) + b":"
            yield from _parts(member)
            mark = b","
        yield b"}" if value else b"{}"
    elif isinstance(value, list) and value and isinstance(value[0], (Mapping, np.ndarray)):
        yield from _list_parts(value)
    else:
        yield orjson.dumps(value)


def _list_parts(values: Sequence[Any] | NDArray[Any]) -> Iterator[bytes]:
    mark = b"["
    for value in values:
        yield mark
        yield from _parts(value)
        mark = b","
    yield b"]"


def _array_parts(array: NDArray[Any]) -> Iterator[bytes]:
    if array.size > PART_VALUES and array.ndim > 1:
        yield from _list_parts(array)
    else:
        yield orjson.dumps(np.ascontiguousarray(array), option=orjson.OPT_SERIALIZE_NUMPY)
