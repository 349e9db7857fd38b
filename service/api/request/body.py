"""Reads the body of a request within limits of size and time: JSON, a form or a multipart form."""

import asyncio
import itertools
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl

import orjson
from starlette.datastructures import Headers, UploadFile
from starlette.formparsers import MultiPartException, MultiPartParser
from starlette.requests import ClientDisconnect, Request

from service.api import error_texts
from service.errors import (
    SHOWN_CHARS,
    DeadlineExceededError,
    InvalidRequestError,
    OverloadedError,
    RequestTooLargeError,
    ServiceError,
)
from service.http_server.byte_budget import RETRY_SECONDS, STALLED_SECONDS, Reservation
from service.http_server.request_connection import connection_of

JSON = "application/json"
FORM = "application/x-www-form-urlencoded"
MULTIPART = "multipart/form-data"

CHUNK_BYTES = 256 * 1024
"""Size of the chunks in which a multipart form is parsed. Other requests run between chunks."""

SMALL_BYTES = 16 * 1024
"""Largest size of a body that reserves no bytes in the budget.

The number of connections bounds the memory of small bodies. Single sentences are therefore read
while large bodies use the whole budget.
"""

RESERVATION_KEY = "body_bytes"
"""Name of the body's reservation in the state of a request's ASGI scope."""
MAX_DEPTH = 16
"""Maximum depth of lists and objects in a JSON body."""

MAX_FIELDS = 4096
"""Maximum number of fields of a body."""

BODY_SECONDS = 60.0
"""Time limit for a whole body.

Without it, the server would wait without end for a client that vanished in the middle of a body
and left its connection open.
"""


async def read_fields(request: Request, max_bytes: int) -> dict[str, Any]:
    """Returns the fields of a request: from a JSON body, or from a form and the query.

    A field of the query overrides a field of the form. A field that occurs several times in the
    form, or several times in the query, becomes a list. The line ends of a form, CRLF, become LF.

    Raises:
        RequestTooLargeError: The body is over the limit.
        InvalidRequestError: The body cannot be read.
        DeadlineExceededError: The body did not arrive in time.
    """
    body = await read_body(request, max_bytes)
    content_type = media_type(request)
    if content_type == JSON:
        return parse_json(body)
    query = merge(request.query_params.multi_items())
    if content_type in (FORM, "") or (not body and query):
        return {**merge(_parse_form(body)), **query}
    if content_type == MULTIPART:
        return {**merge(await parse_multipart(request.headers, body, max_bytes)), **query}
    raise InvalidRequestError(
        f"Content-Type {content_type[:SHOWN_CHARS]} is not supported",
        details=f"send {JSON}, {FORM} or {MULTIPART}",
    )


def media_type(request: Request) -> str:
    """Returns the media type of a body, in lower case and without parameters."""
    return request.headers.get("content-type", "").partition(";")[0].strip().lower()


async def read_body(request: Request, max_bytes: int, seconds: float = BODY_SECONDS) -> bytes:
    """Returns the whole body.

    A large body reserves its bytes in the budget of the HTTP process until the request ends.

    Raises:
        RequestTooLargeError: The body is over the limit, or its Content-Length is.
        InvalidRequestError: The body is compressed.
        OverloadedError: The budget has no room for the body.
        DeadlineExceededError: The body did not arrive in time.
        ClientDisconnect: The client closed the connection.
    """
    encoding = request.headers.get("content-encoding", "identity").lower()
    if encoding != "identity":
        raise InvalidRequestError(
            f"Content-Encoding {encoding[:SHOWN_CHARS]} is not supported",
            details="send the body uncompressed",
        )
    announced = request.headers.get("content-length", "0")
    size = int(announced) if announced.isdecimal() else 0
    if size > max_bytes:
        raise too_large(size, max_bytes)
    return await BodyReader(request, max_bytes, seconds).read(size)


class BodyReader:
    """Reads one body within limits of size and time.

    Args:
        request: The request.
        max_bytes: Largest size of the body.
        seconds: Time limit for the whole body.

    Attributes:
        body: The bytes that have arrived.
        reservation: Reservation of the bytes; None for a small body.
        marked: Number of bytes at the last mark of progress.
        failure: Reason why the reading is interrupted; None if it is not.
    """

    def __init__(self, request: Request, max_bytes: int, seconds: float) -> None:
        task = asyncio.current_task()
        assert task is not None
        self.task = task
        self.request = request
        self.max_bytes = max_bytes
        self.seconds = seconds
        self.body = bytearray()
        self.reservation: Reservation | None = None
        self.marked = 0
        self.failure: ServiceError | None = None

    async def read(self, declared: int) -> bytes:
        """Returns the whole body.

        Args:
            declared: Content-Length of the request; 0 if it has none.
        """
        # This timer does the same as asyncio.timeout, but is faster.
        timer = asyncio.get_running_loop().call_later(self.seconds, self._expire)
        is_whole = False
        try:
            if declared > SMALL_BYTES:
                self._reserve(declared)
            await self._receive()
            is_whole = True
            return bytes(self.body)
        except asyncio.CancelledError:
            if self.failure is not None and self.task.uncancel() == 0:  # nothing else cancelled it
                raise self.failure from None
            raise
        finally:
            timer.cancel()
            self.body.clear()
            # The reservation refers to this reader. Both are freed without garbage collection.
            reservation, self.reservation = self.reservation, None
            if reservation is not None:
                if is_whole:
                    reservation.settle()
                else:
                    reservation.release()

    async def _receive(self) -> None:
        receive, body = self.request.receive, self.body
        while (message := await receive())["type"] != "http.disconnect":
            body += message.get("body", b"")
            if len(body) > self.max_bytes:
                raise too_large(len(body), self.max_bytes)
            if not message.get("more_body", False):
                return
            if len(body) > SMALL_BYTES:
                self._count()
        raise ClientDisconnect

    def _count(self) -> None:
        """Reserves the bytes of a body without Content-Length, and marks progress."""
        size = len(self.body)
        if self.reservation is None or size > self.reservation.size:
            self._reserve(min(2 * size, self.max_bytes))
        if self.reservation is not None:
            # A slower body would exceed the time limit.
            least = self.reservation.size * STALLED_SECONDS / self.seconds
            if size - self.marked >= least:
                self.marked = size
                self.reservation.mark_progress()

    def _reserve(self, size: int) -> None:
        connection = connection_of(self.request.scope)
        if connection is None:
            return
        if self.reservation is None:
            self.reservation = connection.pool.budget.reserve(size, self._give_up)
            self.request.scope["state"][RESERVATION_KEY] = self.reservation
        else:
            self.reservation.grow(size)

    def _expire(self) -> None:
        self._interrupt(too_slow(len(self.body), self.seconds))

    def _give_up(self) -> None:
        self._interrupt(stalled(len(self.body)))

    def _interrupt(self, failure: ServiceError) -> None:
        if self.failure is None:
            self.failure = failure
            self.task.cancel()


def stalled(size: int) -> OverloadedError:
    """Returns the error for a body that arrives slowly while the server needs its memory."""
    return OverloadedError(
        f"only {size} bytes of the body have arrived, and the server needs the memory; send the "
        "body faster, or try again later",
        RETRY_SECONDS,
        "bytes",
    )


def too_slow(size: int, seconds: float) -> DeadlineExceededError:
    """Returns the error for a body that arrived too slowly: `size` bytes in `seconds`."""
    return DeadlineExceededError(
        f"only {size} bytes of the body arrived within {seconds:g} s; "
        "send a smaller body, or try again"
    )


def too_large(size: int, limit: int) -> RequestTooLargeError:
    """Returns the error for a body over the limit."""
    return RequestTooLargeError(
        f"the body has {size} bytes or more; the limit is {limit}. "
        "Send it in parts, or raise REGARD_MAX_BODY_BYTES."
    )


def check_number(texts: Sequence[str], limit: int) -> None:
    """Refuses a request with more texts than the limit.

    Raises:
        RequestTooLargeError: The request has more texts.
    """
    if len(texts) > limit:
        text, details = error_texts.too_many_texts(len(texts), limit)
        raise RequestTooLargeError(text, details=details)


def parse_json(body: bytes) -> dict[str, Any]:
    """Returns the object of a JSON body.

    Raises:
        InvalidRequestError: The body is not JSON, contains a lone surrogate, is not an object, is
            nested too deeply, or has too many fields.
    """
    try:
        value = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise _invalid_json(error) from None
    if not isinstance(value, dict):
        raise _invalid_json("the body must be an object")
    # Few bodies have so many brackets, and counting bytes is fast.
    if body.count(b"[") + body.count(b"{") > MAX_DEPTH and is_deep(value):
        raise InvalidRequestError(
            f"the body is nested more than {MAX_DEPTH} levels deep; send flat lists of texts"
        )
    if len(value) > MAX_FIELDS:
        raise InvalidRequestError(
            f"the body has {len(value)} fields; the limit is {MAX_FIELDS}. Send texts as a list"
        )
    return value


def is_deep(value: dict[str, Any]) -> bool:
    """Returns whether lists and objects are nested more than MAX_DEPTH levels deep."""
    level: list[Any] = [value]
    for _ in range(MAX_DEPTH):
        children = itertools.chain.from_iterable(
            each.values() if isinstance(each, dict) else each for each in level
        )
        level = [child for child in children if isinstance(child, dict | list)]
        if not level:
            return False
    return True


def _invalid_json(reason: object) -> InvalidRequestError:
    text, details = error_texts.invalid_json(reason)
    return InvalidRequestError(text, details=details)


def _parse_form(body: bytes) -> list[tuple[str, str]]:
    try:
        pairs = parse_qsl(
            body.decode("utf-8", errors="replace"),
            keep_blank_values=True,
            max_num_fields=MAX_FIELDS,
        )
    except ValueError:
        raise InvalidRequestError(
            f"the form has more than {MAX_FIELDS} fields; send {JSON} instead"
        ) from None
    return [(name, value.replace("\r\n", "\n")) for name, value in pairs]


@dataclass(frozen=True, slots=True)
class Upload:
    """A file of a multipart form."""

    name: str
    data: bytes


async def parse_multipart(
    headers: Headers, body: bytes, max_bytes: int, max_files: int = 0
) -> list[tuple[str, Any]]:
    """Returns the fields of a multipart form: texts, and an Upload for each file.

    Args:
        headers: Headers of the request.
        body: The whole body.
        max_bytes: Largest size of a field that is not a file.
        max_files: Largest number of files.

    Raises:
        InvalidRequestError: The form cannot be read, or has too many files.
    """

    async def stream() -> AsyncGenerator[bytes, None]:
        for begin in range(0, len(body), CHUNK_BYTES):
            yield body[begin : begin + CHUNK_BYTES]
            await asyncio.sleep(0)  # lets other requests run
        yield b""

    try:
        parser = MultiPartParser(
            headers, stream(), max_files=max_files, max_fields=MAX_FIELDS, max_part_size=max_bytes
        )
        form = await parser.parse()
    except MultiPartException as error:
        raise InvalidRequestError(f"the multipart form cannot be read: {error.message}") from None
    except UnicodeError:  # some codecs raise this instead of the exceptions that starlette catches
        raise InvalidRequestError("the multipart form is not in the charset it names") from None
    try:
        return [(name, await _value(value)) for name, value in form.multi_items()]
    finally:
        await form.close()


async def _value(value: str | UploadFile) -> str | Upload:
    if isinstance(value, str):
        return _normalize(value)
    return Upload(value.filename or "", await value.read())


def _normalize(value: str) -> str:
    """Returns a form value with LF in place of CRLF, and "?" in place of each lone surrogate.

    Some charsets, such as UTF-7, can decode to lone surrogates.
    """
    return value.replace("\r\n", "\n").encode("utf-8", "replace").decode()


def merge(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Returns the fields by name; a field that occurs several times becomes a list."""
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
