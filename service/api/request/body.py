"""Reads the body of a request within limits of size and time: JSON, a form or a multipart form."""

import asyncio
import itertools
import os
from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import dataclass, field
from mmap import mmap
from typing import Any, TypeVar
from urllib.parse import parse_qsl

import orjson
from starlette.datastructures import Headers, UploadFile
from starlette.formparsers import MultiPartException, MultiPartParser
from starlette.requests import ClientDisconnect, Request

from service.api import error_texts
from service.api.context import HttpContext, context_of
from service.api.request.parameters import FORM, JSON, MULTIPART, Upload
from service.errors import (
    SHOWN_CHARS,
    DeadlineExceededError,
    InvalidRequestError,
    OverloadedError,
    RequestTooLargeError,
)
from service.http_server.byte_budget import (
    LEAST_RATE,
    RETRY_SECONDS,
    SMALL_BYTES,
    STALLED_SECONDS,
    Reservation,
)
from service.http_server.loop_load import content_length
from service.state.documents import Content

T = TypeVar("T")
Pieces = AsyncGenerator[bytes, None]

CHUNK_BYTES = 64 * 1024
"""Size of the chunks in which a multipart form is parsed. Other requests run between chunks.

A chunk that is full of beginnings of boundaries takes 9 ms.
"""

UNSAID = (FORM, "text/plain", "")  # media types that clients send without knowing the body
MARGIN = 64  # bytes of a body in which JSON begins

MAX_DEPTH = 16  # maximum depth of lists and objects in a JSON body
MAX_FIELDS = 4096  # maximum number of fields of a body

BODY_SECONDS = 60.0
"""Time limit for a whole body, from a client that may have vanished."""


async def read_fields(request: Request, is_keyless: bool = False) -> dict[str, Any]:
    """Returns the fields of a request: from a JSON body, or from a form and the query.

    A field of the query overrides a field of the form. A field that occurs several times in the
    form, or several times in the query, becomes a list. CRLF line ends in a form become LF.

    A body that begins with `{` is JSON if its media type is one of UNSAID. By default, curl sends
    the type of a form. LiteLLM sends no type to Voyage.
    """
    context = context_of(request)
    body = await read_body(request, is_keyless)
    content_type = media_type(context)
    # Some clients send Content-Type even with a GET or DELETE request that has no body. The header
    # is then ignored.
    if not body and request.method in ("GET", "DELETE"):
        content_type = ""
    if content_type in UNSAID and body[:MARGIN].lstrip().startswith(b"{"):
        content_type = JSON
    if content_type == JSON:
        fields: dict[str, Any] = parse_json(body)
        return fields
    query = read_query(request)
    if content_type in (FORM, "") or (not body and query):
        return {**merge(_parse_form(body)), **query}
    if content_type == MULTIPART:
        max_field_bytes = context.services.settings.max_body_bytes
        form = await parse_multipart(request.headers, _only(body), max_field_bytes)
        return {**merge(form), **query}
    raise InvalidRequestError(
        f"Content-Type {content_type[:SHOWN_CHARS]} is not supported",
        details=f"send {JSON}, {FORM} or {MULTIPART}",
    )


def media_type(context: HttpContext) -> str:
    given = context.headers.get(b"content-type", b"").decode("latin-1")
    return given.partition(";")[0].strip().lower()


async def read_body(request: Request, is_keyless: bool = False) -> bytes:
    """Returns the whole body. A body over SMALL_BYTES reserves its bytes until the request ends."""
    context = context_of(request)
    max_bytes = context.services.settings.max_body_bytes
    size, connection = _announced_bytes(context, max_bytes), context.connection
    if 0 < size <= SMALL_BYTES and connection is not None:
        body = connection.take_body()
        if body is not None:
            return body
    reader = BodyReader(request, max_bytes, BODY_SECONDS, is_keyless)
    return await reader.read(size, reader.joined)


async def read_upload_form(
    request: Request, max_bytes: int, seconds: float, is_keyless: bool, max_field_bytes: int
) -> list[tuple[str, Any]]:
    """Returns the fields of a multipart form with one file, which is never in memory as a whole."""
    size = _announced_bytes(context_of(request), max_bytes)

    async def parse(pieces: Pieces) -> list[tuple[str, Any]]:
        return await parse_multipart(request.headers, pieces, max_field_bytes, max_files=1)

    return await BodyReader(request, max_bytes, seconds, is_keyless).read(size, parse)


def _announced_bytes(context: HttpContext, max_bytes: int) -> int:
    headers = context.headers
    encoding = headers.get(b"content-encoding", b"identity").decode("latin-1").lower()
    if encoding != "identity":
        raise InvalidRequestError(
            f"Content-Encoding {encoding[:SHOWN_CHARS]} is not supported",
            details="send the body uncompressed",
        )
    size = content_length(headers)
    if size > max_bytes:
        raise too_large(size, max_bytes)
    return size


def parse_json(body: bytes, is_object: bool = True) -> Any:
    try:
        value = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise error_texts.invalid_json(error) from None
    if is_object and not isinstance(value, dict):
        raise error_texts.invalid_json("the body must be an object")
    # Few bodies have more than MAX_DEPTH brackets, so the slow `is_deep` seldom runs.
    if body.count(b"[") + body.count(b"{") > MAX_DEPTH and is_deep(value):
        raise InvalidRequestError(
            f"the body is nested more than {MAX_DEPTH} levels deep; send flat lists of texts"
        )
    if is_object and len(value) > MAX_FIELDS:
        raise InvalidRequestError(
            f"the body has {len(value)} fields; the limit is {MAX_FIELDS}. Send texts as a list"
        )
    return value


def is_deep(value: Any) -> bool:
    level: list[Any] = [value]
    for _ in range(MAX_DEPTH):
        children = itertools.chain.from_iterable(
            each.values() if isinstance(each, dict) else each for each in level
        )
        level = [child for child in children if isinstance(child, dict | list)]
        if not level:
            return False
    return True


def read_query(request: Request) -> dict[str, Any]:
    return merge(_pairs(request.scope["query_string"], "query"))


def _parse_form(body: bytes) -> list[tuple[str, str]]:
    return [(name, value.replace("\r\n", "\n")) for name, value in _pairs(body, "form")]


def _pairs(source: bytes, kind: str) -> list[tuple[str, str]]:
    limit = MAX_FIELDS
    try:
        return parse_qsl(source.decode(), True, max_num_fields=limit, errors="strict")
    except UnicodeDecodeError as error:
        byte = error.object[error.start]
        raise InvalidRequestError(
            f"the {kind} has the byte 0x{byte:02X}, which is not UTF-8 there; encode it in UTF-8"
        ) from None
    except ValueError:
        raise InvalidRequestError(
            f"the {kind} has more than {limit} fields; send {JSON} instead"
        ) from None


FILE_ADVICE = (
    "this route reads no files; send a text as a field, without a file name",
    "send each file in a request of its own",
)
"""Advice about a file too many, by the number of files that a form may have."""


async def parse_multipart(
    headers: Headers, pieces: Pieces, max_bytes: int, max_files: int = 0
) -> list[tuple[str, Any]]:
    """Returns the fields of a multipart form: texts of up to `max_bytes` bytes, and Uploads."""
    try:
        parser = MultiPartParser(
            headers,
            _chunks(pieces),
            max_files=max_files,
            max_fields=MAX_FIELDS,
            max_part_size=max_bytes,
        )
        form = await parser.parse()
    except MultiPartException as error:
        raise InvalidRequestError(
            f"the multipart form cannot be read: {error.message}",
            details=FILE_ADVICE[max_files] if error.message.startswith("Too many files") else "",
        ) from None
    except UnicodeError:  # some codecs raise this instead of the exceptions that starlette catches
        raise InvalidRequestError("the multipart form is not in the charset it names") from None
    try:
        return [(name, await _value(value)) for name, value in form.multi_items()]
    finally:
        await form.close()


async def _only(body: bytes) -> Pieces:
    yield body


async def _chunks(pieces: Pieces) -> Pieces:
    async for piece in pieces:
        for begin in range(0, len(piece), CHUNK_BYTES):
            yield piece[begin : begin + CHUNK_BYTES]
            await asyncio.sleep(0)  # lets other requests run


async def _value(value: str | UploadFile) -> str | Upload:
    if isinstance(value, str):  # charsets such as UTF-7 have lone surrogates
        return value.replace("\r\n", "\n").encode("utf-8", "replace").decode()
    # `fileno` writes a file that is still in memory to the disk.
    return Upload(value.filename or "", Content(os.dup(await asyncio.to_thread(value.file.fileno))))


def merge(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    for name, value in pairs:
        known = fields.get(name)
        if known is None:
            fields[name] = value
        elif isinstance(known, list):
            known.append(value)
        else:
            fields[name] = [known, value]
    return fields


class BodyBuffer:
    """Collects the bytes of one body.

    A large body has memory pages of its own, which take memory only as bytes arrive. A growing
    `bytearray` would take up to twice the memory, and leave gaps that other bodies cannot use.
    """

    def __init__(self) -> None:
        self.size = 0
        self.memory: bytearray | mmap = bytearray()

    def reserve(self, capacity: int) -> None:
        if capacity <= len(self.memory):
            return
        before = self.memory
        self.memory = bytearray(capacity) if capacity <= SMALL_BYTES else mmap(-1, capacity)
        self.memory[: self.size] = before[: self.size]

    def add(self, data: bytes) -> None:
        end = self.size + len(data)
        if end > len(self.memory):
            self.reserve(2 * end)
        self.memory[self.size : end] = data
        self.size = end

    def take(self) -> bytes:
        data = bytes(self.memory[: self.size])
        self.memory = bytearray()
        self.size = 0
        return data


@dataclass(eq=False)
class BodyReader:
    request: Request
    max_bytes: int
    seconds: float
    is_keyless: bool
    buffer: BodyBuffer = field(default_factory=BodyBuffer)
    size: int = 0  # bytes that have arrived
    marked: int = 0  # value of `size` at the last progress
    reservation: Reservation | None = None
    is_given_up: bool = False

    async def read(self, declared: int, consume: Callable[[Pieces], Awaitable[T]]) -> T:
        """Returns the result of `consume` for the body, which arrives in pieces."""
        is_whole = False
        try:
            async with asyncio.timeout(self.seconds) as self.timeout:
                if declared > SMALL_BYTES:
                    self._reserve(declared)
                result = await consume(self._pieces())
                is_whole = True
                return result
        except TimeoutError:
            if not self.is_given_up:
                raise DeadlineExceededError(
                    f"only {self.size} bytes of the body arrived within {self.seconds:g} s; "
                    "send a smaller body, or try again"
                ) from None
            message = (
                f"only {self.size} bytes of the body have arrived, and the server needs the memory "
                f"for others; send the body faster than {LEAST_RATE} bytes/s, send it in parts of "
                f"up to {SMALL_BYTES} bytes, or try again later"
            )
            raise OverloadedError(message, RETRY_SECONDS, "bytes") from None
        finally:
            self.buffer = BodyBuffer()
            # This reader and its reservation refer to each other. The assignment breaks this cycle,
            # so both are freed at once and do not wait for the garbage collector.
            reservation, self.reservation = self.reservation, None
            if reservation is not None:
                if is_whole:
                    reservation.settle()
                else:
                    reservation.release()

    async def joined(self, pieces: Pieces) -> bytes:
        if self.reservation is not None:
            self.buffer.reserve(self.reservation.size)
        async for piece in pieces:
            self.buffer.add(piece)
        return self.buffer.take()

    async def _pieces(self) -> Pieces:
        receive = self.request.receive
        while (message := await receive())["type"] != "http.disconnect":
            piece: bytes = message.get("body", b"")
            self.size += len(piece)
            if self.size > self.max_bytes:
                raise too_large(self.size, self.max_bytes)
            yield piece
            if not message.get("more_body", False):
                return
            if self.size > SMALL_BYTES:
                self._count()
        raise ClientDisconnect

    def _count(self) -> None:
        size = self.size
        if self.reservation is None or size > self.reservation.size:
            self._reserve(min(2 * size, self.max_bytes))
        if self.reservation is not None:
            # The reserved bytes need a certain average rate to arrive within the time limit.
            # Bytes that arrive more slowly do not count as progress.
            rate = max(LEAST_RATE, self.reservation.size / self.seconds)
            if size - self.marked >= rate * STALLED_SECONDS:
                self.marked = size
                self.reservation.mark_progress()

    def _reserve(self, size: int) -> None:
        context = context_of(self.request)
        connection = context.connection
        if self.reservation is not None:
            self.reservation.grow(size)
        elif connection is not None:
            pool = connection.pool
            budget = pool.keyless if self.is_keyless else pool.budget
            self.reservation = budget.reserve(size, self._give_up)
            context.reservation = self.reservation

    def _give_up(self) -> None:
        self.is_given_up = True
        if not self.timeout.expired():
            self.timeout.reschedule(0)  # it ends the reading at once


def too_large(size: int, limit: int) -> RequestTooLargeError:
    return RequestTooLargeError(
        f"the body has {size} bytes or more; the limit is {limit}. "
        "Send it in parts, or raise REGARD_MAX_BODY_BYTES."
    )
