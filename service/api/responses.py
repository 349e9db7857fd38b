"""JSON responses, whole or in chunks, and the choice of a media type.

A process serves many clients in one event loop. If it serialised megabytes at once, all other
clients would have to wait.
"""

import asyncio
from collections.abc import AsyncIterator, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any

import numpy as np
import orjson
from numpy.typing import NDArray
from pydantic import BaseModel
from starlette.responses import Response, StreamingResponse
from starlette.types import Message, Receive, Scope, Send

from service.api.context import HttpContext
from service.api.request.parameters import JSON

ANY = "*/*"

CHUNK_BYTES = 128 * 1024  # minimum size of every chunk of JSON except the last

PART_VALUES = 16 * 1024
"""Maximum number of array values that are serialised at once, in 0.5 ms; rows are not divided."""


class JSONResponse(Response):
    """A JSON response from a value, or from JSON as bytes. No value has lone surrogates."""

    media_type = JSON

    def __init__(
        self, content: Any, status_code: int = 200, headers: Mapping[str, str] | None = None
    ) -> None:
        self.status_code = status_code
        self.body = content if isinstance(content, bytes) else orjson.dumps(content)
        self.background = None
        self.raw_headers = [
            (b"content-type", b"application/json"),
            (b"content-length", b"%d" % len(self.body)),
        ]
        if headers:
            self.raw_headers += [(n.lower().encode(), v.encode()) for n, v in headers.items()]


class ComputedResponse(StreamingResponse):
    """A JSON response in chunks, whose values have been computed.

    The admission of the request ends when the reply begins, even if the client reads slowly. While
    the reply is written, the bytes of the values are reserved in the memory budget.
    """

    def __init__(
        self, chunks: Iterator[bytes], num_bytes: int, headers: Mapping[str, str] | None
    ) -> None:
        super().__init__(one_by_one(chunks), headers=headers, media_type=JSON)
        self.num_bytes = num_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        context: HttpContext = scope["state"]["context"]
        context.release()
        connection = context.connection
        if connection is None:
            await super().__call__(scope, receive, send)
            return
        connection.unread.hold(self.num_bytes)
        try:
            await super().__call__(scope, receive, send)
        finally:
            connection.unread.let_go(self.num_bytes)


WITHOUT_BODY = (204, 304)  # statuses of responses that have neither a body nor a length


class LengthSender:
    """Sends a response to a client of HTTP/1.0, which knows no chunks.

    A response without a length is kept until it is complete. A stream is not kept, so that a proxy
    such as nginx, which sends requests of HTTP/1.0, passes on each event at once.
    """

    def __init__(self, context: HttpContext, send: Send) -> None:
        self.connection = context.connection
        self.send = send
        self.start: Message | None = None
        self.parts: list[bytes] = []

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = dict(message["headers"])
            is_stream = headers.get(b"x-accel-buffering") == b"no"
            if is_stream or b"content-length" in headers or message["status"] in WITHOUT_BODY:
                await self.send(message)
            else:
                self.start = message
        elif self.start is None:
            await self.send(message)
        else:
            part = message.get("body", b"")
            self.parts.append(part)
            if self.connection is not None:
                self.connection.unread.hold(len(part))
            if not message.get("more_body"):
                await self._send_whole(self.start, b"".join(self.parts))

    async def _send_whole(self, start: Message, body: bytes) -> None:
        self.parts.clear()
        length = (b"content-length", str(len(body)).encode())
        await self.send({**start, "headers": [*start["headers"], length]})
        await self.send({"type": "http.response.body", "body": body})
        if self.connection is not None:
            self.connection.unread.let_go(len(body))


def body_response(body: BaseModel) -> Response:
    return json_response(json_chunks(body), num_bytes_of(body))


def json_response(
    chunks: Iterator[bytes], num_bytes: int, headers: Mapping[str, str] | None = None
) -> Response:
    """Returns a response from chunks of JSON. `num_bytes` is the size of the values in memory."""
    first, second = next(chunks), next(chunks, None)
    if second is None:
        return JSONResponse(first, headers=headers)
    return ComputedResponse(chain([first, second], chunks), num_bytes, headers)


async def one_by_one(chunks: Iterator[bytes]) -> AsyncIterator[bytes]:
    for chunk in chunks:
        await asyncio.sleep(0)
        yield chunk


Body = BaseModel | Mapping[str, Any] | Sequence[Any] | NDArray[Any]
"""A body with arrays, which may be members of objects, and of lists of objects or arrays only."""

OBJECTS = (BaseModel, Mapping, np.ndarray)


def json_chunks(body: Body) -> Iterator[bytes]:
    """Yields the JSON of a body, in chunks that each take about a millisecond."""
    if isinstance(body, np.ndarray) and body.size <= PART_VALUES:  # as in most replies
        return _array_parts(body)
    return gather(_parts(body))


def num_bytes_of(body: Body) -> int:
    if isinstance(body, np.ndarray):
        return body.nbytes
    if isinstance(body, BaseModel):
        body = given_fields(body)
    if isinstance(body, Mapping):
        return sum(map(num_bytes_of, body.values()))
    if isinstance(body, list) and body and isinstance(body[0], OBJECTS):
        return sum(map(num_bytes_of, body))
    return 0


def given_fields(model: BaseModel) -> dict[str, Any]:
    """Returns the fields that a reply has, in the order of its type."""
    given = model.model_fields_set
    return {name: getattr(model, name) for name in type(model).model_fields if name in given}


def gather(parts: Iterator[bytes]) -> Iterator[bytes]:
    chunk = bytearray()
    for part in parts:
        chunk += part
        if len(chunk) >= CHUNK_BYTES:
            yield bytes(chunk)
            chunk.clear()
    if chunk:
        yield bytes(chunk)


def list_parts(items: Iterable[Any]) -> Iterator[bytes]:
    """Yields the JSON of a list, one item after the other. An item may have small arrays."""
    mark = b"["
    for item in items:
        yield mark + orjson.dumps(item, option=orjson.OPT_SERIALIZE_NUMPY)
        mark = b","
    yield b"]"


def _parts(value: Any) -> Iterator[bytes]:
    if isinstance(value, BaseModel):
        value = given_fields(value)
    if isinstance(value, np.ndarray):
        yield from _array_parts(value)
    elif isinstance(value, Mapping):
        mark = b"{"
        for name, member in value.items():
            yield mark + orjson.dumps(name) + b":"
            yield from _parts(member)
            mark = b","
        yield b"}" if value else b"{}"
    elif isinstance(value, list) and value and isinstance(value[0], OBJECTS):
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


def preferred(accept: str, offered: Collection[str]) -> str:
    """Returns the offered media type that a client prefers; JSON if the header names none."""
    ranges = [_media_range(part) for part in accept.split(",")]
    ranges.sort(key=lambda found: -found[1])  # equal weights keep their order
    for media_type, weight in ranges:
        if weight > 0 and media_type in (*offered, JSON, ANY):
            return JSON if media_type == ANY else media_type
    return JSON


def _media_range(part: str) -> tuple[str, float]:
    media_type, *parameters = (word.strip().lower() for word in part.split(";"))
    weights = [word[2:] for word in parameters if word.startswith("q=")]
    try:
        return media_type, float(weights[0]) if weights else 1.0
    except ValueError:
        return media_type, 0.0
