"""Request bodies as parameters: JSON, form, multipart or query, within a limit."""

import asyncio
import re
from collections.abc import AsyncGenerator, Sequence
from typing import Annotated, Any, NoReturn, TypeVar
from urllib.parse import parse_qsl

import orjson
from pydantic import BaseModel, BeforeValidator, Field, ValidationError, model_validator
from pydantic_core import ErrorDetails, PydanticCustomError
from starlette.datastructures import Headers
from starlette.formparsers import MultiPartException, MultiPartParser
from starlette.requests import ClientDisconnect, Request

from service.errors import DeadlineExceededError, InvalidRequestError, RequestTooLargeError

JSON = "application/json"
FORM = "application/x-www-form-urlencoded"
MULTIPART = "multipart/form-data"
MAX_FIELDS = 4096
BODY_SECONDS = 60.0
"""For a whole body. A client that vanished in the middle of one, its connection left open, would
otherwise be waited for without end."""
SHOWN_CHARS = 40

REFUSED = "refused"
"""The type of faults whose message tells all that a client needs."""

BOUNDS = {"greater_than_equal": (">=", "ge"), "less_than_equal": ("<=", "le")}

NOT_INTEGERS = ("int_parsing", "int_parsing_size", "int_type", "int_from_float")
"""JSON's numbers beyond 64 bits come as floats."""

Model = TypeVar("Model", bound=BaseModel)
Member = TypeVar("Member")

ListOf = Annotated[list[Member], Field(fail_fast=True)]
"""A list of which the first wrong member is told. A fault for each of 400,000, which a body may
have, would keep every other request waiting for seconds."""


def _not_truth(value: Any) -> Any:
    if isinstance(value, bool):
        raise PydanticCustomError("int_type", "true and false are no numbers")
    return value


Whole = Annotated[int, BeforeValidator(_not_truth)]
"""A whole number, or a form's text of one."""


class Parameters(BaseModel):
    """The parameters of a request; null is as good as nothing."""

    @model_validator(mode="before")
    @classmethod
    def _drop_nulls(cls, fields: Any) -> Any:
        if isinstance(fields, dict) and None in fields.values():
            return {name: value for name, value in fields.items() if value is not None}
        return fields


def json_body_of(model: type[BaseModel]) -> dict[str, Any]:
    """How a route that reads its own body, which is JSON, tells OpenAPI of it."""
    schema = {"schema": model.model_json_schema()}
    return {"requestBody": {"required": True, "content": {JSON: schema}}}


def refuse(message: str) -> NoReturn:
    """For validators: ends them with a message for the client."""
    raise PydanticCustomError(REFUSED, message)


async def read_parameters(request: Request, model: type[Model], max_bytes: int) -> Model:
    """The parameters of a request, whichever way they were sent.

    JSON is taken as it is. A form is merged with the query; a field that comes several times is a
    list, and line ends are those of a form, CRLF, turned back to LF.

    Raises:
        RequestTooLargeError: The body is over the limit.
        InvalidRequestError: It cannot be read, or is not what `model` takes.
        DeadlineExceededError: It did not come in time.
    """
    body = await read_body(request, max_bytes)
    content_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if content_type == JSON:
        fields = parse_json(body)
    elif content_type in (FORM, "") or (not body and request.query_params):
        fields = _merge([*request.query_params.multi_items(), *_parse_form(body)])
    elif content_type == MULTIPART:
        form = await _parse_multipart(request.headers, body, max_bytes)
        fields = _merge([*request.query_params.multi_items(), *form])
    else:
        raise InvalidRequestError(
            f"Content-Type {content_type[:SHOWN_CHARS]} is not supported; "
            f"send {JSON}, {FORM} or {MULTIPART}"
        )
    try:
        return model.model_validate(fields)
    except ValidationError as error:
        hint = _json_hint(content_type, body)
        raise InvalidRequestError(describe(error) + hint, param=first_fault(error)[1]) from None


async def read_body(request: Request, max_bytes: int, seconds: float = BODY_SECONDS) -> bytes:
    """The whole body.

    Raises:
        RequestTooLargeError: It is over the limit, or says that it will be.
        InvalidRequestError: It is compressed.
        DeadlineExceededError: It did not come in time.
    """
    encoding = request.headers.get("content-encoding", "identity").lower()
    if encoding != "identity":
        raise InvalidRequestError(
            f"Content-Encoding {encoding[:SHOWN_CHARS]} is not supported; send it uncompressed"
        )
    announced = request.headers.get("content-length", "0")
    if announced.isdecimal() and int(announced) > max_bytes:
        raise too_large(int(announced), max_bytes)
    body = bytearray()
    task = asyncio.current_task()
    assert task is not None
    is_late = False

    def give_up() -> None:
        nonlocal is_late
        is_late = task.cancel()

    timer = asyncio.get_running_loop().call_later(seconds, give_up)  # as in asyncio.timeout, faster
    try:
        while (message := await request.receive())["type"] != "http.disconnect":
            body += message.get("body", b"")
            if len(body) > max_bytes:
                raise too_large(len(body), max_bytes)
            if not message.get("more_body", False):
                return bytes(body)
    except asyncio.CancelledError:
        if is_late and task.uncancel() == 0:  # nobody else wants the end of this task
            raise too_slow(len(body), seconds) from None
        raise
    finally:
        timer.cancel()
    raise ClientDisconnect


def too_slow(size: int, seconds: float) -> DeadlineExceededError:
    """The error of a body of which so many bytes came in its time."""
    return DeadlineExceededError(
        f"{size} bytes of the body came within {seconds:g} s, and not the rest; "
        "send it in parts, or try again"
    )


def too_large(size: int, limit: int) -> RequestTooLargeError:
    """The error for a body over the limit."""
    return RequestTooLargeError(
        f"the body has {size} bytes or more; the limit is {limit}. "
        "Send it in parts, or raise REGARD_MAX_BODY_BYTES."
    )


def check_number(texts: Sequence[str], limit: int) -> None:
    """Refuses more texts than one request may bring.

    Raises:
        RequestTooLargeError: There are.
    """
    if len(texts) > limit:
        raise RequestTooLargeError(
            f"Invalid request: request ({len(texts)}) exceeds text limit ({limit}). "
            "Send fewer texts at once, or raise REGARD_MAX_INPUTS."
        )


def parse_json(body: bytes) -> dict[str, Any]:
    """The object that a JSON body holds.

    Raises:
        InvalidRequestError: It is no JSON, holds a lone surrogate, is not an object, or has too
            many fields.
    """
    try:
        value = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise InvalidRequestError(f"Invalid JSON format: {error}") from None
    if not isinstance(value, dict):
        raise InvalidRequestError("Invalid JSON format: the body must be an object")
    if len(value) > MAX_FIELDS:
        raise InvalidRequestError(
            f"the body has {len(value)} fields; the limit is {MAX_FIELDS}. Several texts are a list"
        )
    return value


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


async def _parse_multipart(headers: Headers, body: bytes, max_bytes: int) -> list[tuple[str, str]]:
    async def stream() -> AsyncGenerator[bytes, None]:
        yield body
        yield b""

    try:
        parser = MultiPartParser(
            headers, stream(), max_files=0, max_fields=MAX_FIELDS, max_part_size=max_bytes
        )
        form = await parser.parse()
    except MultiPartException as error:
        raise InvalidRequestError(f"the multipart form cannot be read: {error.message}") from None
    except UnicodeError:  # some codecs raise this where others raise what starlette expects
        raise InvalidRequestError("the multipart form is not in the charset it names") from None
    return [(name, _plain(str(value))) for name, value in form.multi_items()]


def _plain(value: str) -> str:
    """The value of a form's field with LF, and "?" for lone surrogates (a UTF-7 form has those)."""
    return value.replace("\r\n", "\n").encode("utf-8", "replace").decode()


def _merge(pairs: list[tuple[str, str]]) -> dict[str, Any]:
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


def _json_hint(content_type: str, body: bytes) -> str:
    if content_type != JSON and body.lstrip().startswith(b"{"):
        return f". The body looks like JSON: send it with Content-Type: {JSON}"
    return ""


def describe(error: ValidationError) -> str:
    """The first fault of a request, in LibreTranslate's words where it has some."""
    fault, name, where = first_fault(error)
    return _message(fault, name or "body", where)


def first_fault(error: ValidationError) -> tuple[ErrorDetails, str | None, str]:
    """The first fault of a request, its parameter where it is one's, and the place in that."""
    faults = error.errors(include_url=False)
    # A union lists a fault for each of its members; the one that got furthest says most.
    first = [fault for fault in faults if fault["loc"][:1] == faults[0]["loc"][:1]]
    fault = max(first, key=lambda fault: len(fault["loc"]))
    # Inside a union the kind of its member stands in the place: q, list[str], 1.
    kinds = re.compile(r"\[|^(str|int|constrained-int)$")
    place = [part for part in fault["loc"] if not kinds.search(str(part))]
    name = str(place[0]) if place else None
    where = (name or "body") + "".join(f"[{part}]" for part in place[1:])
    return fault, name, where


def _message(fault: ErrorDetails, name: str, where: str) -> str:
    kind, value = fault["type"], fault["input"]
    if kind == REFUSED:
        return f"Invalid request: {fault['msg']}"
    if kind == "missing":
        return f"Invalid request: missing {where} parameter"
    if kind == "extra_forbidden":
        return f"Invalid request: there is no {name[:SHOWN_CHARS]} parameter; /docs lists all"
    if kind == "literal_error":
        expected = fault["ctx"]["expected"].replace("'", "")
        return f"{str(value)[:SHOWN_CHARS]} {where} is not supported; use {expected}"
    if kind in BOUNDS:
        sign, limit = BOUNDS[kind]
        bound, shown = fault["ctx"][limit], str(value)[:SHOWN_CHARS]
        return f"Invalid request: {where} parameter must be {sign} {bound}, not {shown}"
    if kind in NOT_INTEGERS:
        if isinstance(value, float):
            shown = str(value)[:SHOWN_CHARS]
            wanted = "a number that is whole and has up to 64 bits"
            return f"Invalid request: {name} parameter is not {wanted}, but {shown}"
        return f"Invalid request: {name} parameter is not a number"
    return f"Invalid request: {where} parameter: {fault['msg']} (it is {type(value).__name__})"
