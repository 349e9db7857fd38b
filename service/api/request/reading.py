"""Reads the parameters of a request, checks its API key, and ends its work if the client leaves."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError
from starlette.requests import ClientDisconnect, Request

from service.api.context import HttpContext, context_of
from service.api.keys import QUERY_FIELDS, given_key, num_characters
from service.api.request.body import media_type, merge, read_fields, read_query, read_upload_form
from service.api.request.parameters import MULTIPART, describe
from service.api.request.translation import enabled
from service.errors import ForbiddenError, InvalidKeyError, MissingKeyError, RequestTooLargeError
from service.settings.keys import ApiKey

T = TypeVar("T")
Model = TypeVar("Model", bound=BaseModel)
Reader = Callable[[Request, bool], Awaitable[dict[str, Any]]]
"""Reads the fields of a request. The second argument is whether the body may have the key."""

FORM_BYTES = 64 * 1024
"""Largest size of each field that is not a file, in addition to REGARD_MAX_FILE_BYTES."""

UPLOAD_SECONDS = 600.0
"""Time limit for the arrival of a document. An upload over a slow connection takes minutes."""


def validated(fields: dict[str, Any], model: type[Model]) -> Model:
    try:
        return model.model_validate(fields)
    except ValidationError as error:
        raise describe(error) from None


async def read_permitted(request: Request, read: Reader = read_fields) -> dict[str, Any]:
    """Returns the fields of a request whose key is valid, for this route, and within its limits.

    A key in a header or in the query is checked before the body is read. Without such a key, the
    body may have the key, and it counts against the share of bodies without a key.
    """
    context = context_of(request)
    if not context.services.keys.is_required:
        return await read(request, False)
    given = given_key(context.headers, read_query(request), QUERY_FIELDS)
    key = find_key(context, given) if given else None
    fields = await read(request, key is None)
    if key is None:
        key = find_key(context, given_key(context.headers, fields))
    if key.limits:
        texts = [each for name, each in fields.items() if name not in QUERY_FIELDS]
        number = num_characters(texts) if key.limits.characters else 0
        await context.services.backend.take(key.digest, key.limits, number)
    return fields


def find_key(context: HttpContext, given: str) -> ApiKey:
    if not given:
        raise MissingKeyError(
            "Please contact the server operator to get an API key",
            details="send a key as the field api_key, or in the header `Authorization: Bearer …`",
        )
    key = context.services.keys.find(given)
    if key is None:
        details = "use a key from REGARD_API_KEYS of the server"
        raise InvalidKeyError("Invalid API key", details=details)
    context.key, context.account = key, key.digest
    check_scope(key, context.dialect.scope)
    return key


def check_scope(key: ApiKey, scope: str) -> None:
    if scope and scope not in key.scopes:
        named = f"The API key {key.name}" if key.name else "The API key"
        message = f"{named} does not have the scope {scope}"
        raise ForbiddenError(message, details=f"add {scope} to its scopes")


async def read_form(request: Request, is_keyless: bool) -> dict[str, Any]:
    """Returns the fields of a multipart form with a document, and of the query.

    A server without translation of documents refuses the request before it reads the form.
    """
    context, fields = context_of(request), read_query(request)
    enabled(context.services)
    if media_type(context) != MULTIPART:
        return fields
    limit = context.services.settings.max_file_bytes
    try:
        form = await read_upload_form(
            request, limit + FORM_BYTES, UPLOAD_SECONDS, is_keyless, FORM_BYTES
        )
    except RequestTooLargeError:
        raise RequestTooLargeError(
            f"the file is over the limit of {limit} bytes; split it, or raise REGARD_MAX_FILE_BYTES"
        ) from None
    return {**merge(form), **fields}


async def unless_disconnected(request: Request, work: Coroutine[Any, Any, T]) -> T:
    """Returns the result of `work`, or cancels `work` as soon as the client disconnects.

    The body has been read, so the next ASGI message can only be the disconnection.
    """
    task = asyncio.current_task()
    assert task is not None
    is_gone = is_over = False

    def end() -> None:
        nonlocal is_gone
        if not (is_gone or is_over):
            is_gone = True
            task.cancel()

    connection = context_of(request).connection
    watcher = None
    if connection is not None:
        connection.watch(end)
    else:  # an ASGI client in the same process, such as a test, has no connection
        watcher = asyncio.create_task(_disconnected(request))
        watcher.add_done_callback(lambda watcher: None if watcher.cancelled() else end())
    try:
        return await work
    except asyncio.CancelledError:
        if is_gone and task.uncancel() == 0:  # only `end` has cancelled the task
            raise ClientDisconnect from None
        raise
    finally:
        is_over = True
        if connection is not None:
            connection.on_lost = None
        elif watcher is not None:
            watcher.cancel()


async def _disconnected(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
