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
from service.api.request.body_buffer import SMALL_BYTES
from service.api.request.body_reader import BodyReader, too_large
from service.errors import SHOWN_CHARS, InvalidRequestError, RequestTooLargeError
from service.http_server.request_connection import has_body

JSON = "application/json"
FORM = "application/x-www-form-urlencoded"
MULTIPART = "multipart/form-data"

CHUNK_BYTES = 256 * 1024
"""Size of the chunks in which a multipart form is parsed. Other requests run between chunks."""

MAX_DEPTH = 16
"""Maximum depth of lists and objects in a JSON body."""

MAX_FIELDS = 4096
"""Maximum number of fields of a body."""

BODY_SECONDS = 60.0
"""Time limit for a whole body.

Without this limit, the server would wait forever for a client that vanished in the middle of a body
and left its connection open.
"""


async def read_fields(request: Request, max_bytes: int, is_keyless: bool = False) -> dict[str, Any]:
    """Returns the fields of a request: from a JSON body, or from a form and the query.

    A field of the query overrides a field of the form. A field that occurs several times in the
    form, or several times in the query, becomes a list. CRLF line ends in a form become LF.

    Args:
        request: The request.
        max_bytes: Largest size of the body.
        is_keyless: Whether the body counts against the share of bodies without a key.

    Raises:
        RequestTooLargeError: The body is over the limit.
        InvalidRequestError: The body cannot be read.
        OverloadedError: The server has no memory for the body.
        DeadlineExceededError: The body did not arrive in time.
        ClientDisconnect: The client closed the connection.
    """
    body = await read_body(request, max_bytes, is_keyless=is_keyless)
    # Some clients send Content-Type even with a GET or DELETE request that has no body. The header
    # is then ignored.
    is_empty = not body and request.method in ("GET", "DELETE")
    content_type = "" if is_empty else media_type(request)
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


async def read_body(
    request: Request, max_bytes: int, seconds: float = BODY_SECONDS, is_keyless: bool = False
) -> bytes:
    """Returns the whole body.

    A body over SMALL_BYTES reserves its bytes in the byte budget of the HTTP process until the
    request ends.

    Raises:
        RequestTooLargeError: The body or its Content-Length is over the limit.
        InvalidRequestError: The body is compressed.
        OverloadedError: The budget has no room for the body, or the body arrives slowly while
            another transfer needs the memory.
        DeadlineExceededError: The body did not arrive in time.
        ClientDisconnect: The client closed the connection.
    """
    # One lookup in `request.headers` takes several times as long as building this dictionary.
    headers = dict(request.scope["headers"])
    encoding = headers.get(b"content-encoding", b"identity").decode("latin-1").lower()
    if encoding != "identity":
        raise InvalidRequestError(
            f"Content-Encoding {encoding[:SHOWN_CHARS]} is not supported",
            details="send the body uncompressed",
        )
    announced = headers.get(b"content-length", b"0")
    size = int(announced) if announced.isdigit() else 0
    if size > max_bytes:
        raise too_large(size, max_bytes)
    if 0 < size <= SMALL_BYTES and has_body(request.scope):
        message = await request.receive()  # the body has arrived, so this does not wait
        if message["type"] == "http.disconnect":
            raise ClientDisconnect
        body: bytes = message["body"]
        return body
    return await BodyReader(request, max_bytes, seconds, is_keyless).read(size)


def check_number(texts: Sequence[str], limit: int) -> None:
    """Refuses a request with more texts than the limit.

    Raises:
        RequestTooLargeError: The request has more than `limit` texts.
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
    # Few bodies have more than MAX_DEPTH brackets, so the slow `is_deep` seldom runs.
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
        max_bytes: Largest size, in bytes, of a field that is not a file.
        max_files: Largest number of files.

    Raises:
        InvalidRequestError: The form cannot be read, has too many fields or files, or has a field
            over `max_bytes`.
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
