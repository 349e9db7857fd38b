"""Reads a multipart form with one file, within limits of size and time."""

from typing import Annotated, Any

from pydantic import Field, PlainValidator, WithJsonSchema
from starlette.requests import Request

from service.api import error_texts
from service.api.access.keys import permitted
from service.api.request.body import (
    MULTIPART,
    Upload,
    media_type,
    merge,
    parse_multipart,
    read_body,
)
from service.api.request.parameters import Model, refuse, validated
from service.errors import RequestTooLargeError
from service.settings import Settings

FORM_BYTES = 64 * 1024
"""Largest size of each field that is not a file.

The limit on the whole body is REGARD_MAX_FILE_BYTES plus FORM_BYTES.
"""

BODY_SECONDS = 600.0
"""Time limit for the arrival of a document. An upload over a slow connection takes minutes."""


def _as_upload(value: Any) -> Upload:
    if not isinstance(value, Upload):
        refuse("file parameter must be a file; send one file in a multipart form")
    if not value.name or not value.data:
        refuse(error_texts.EMPTY_FILE.removeprefix("Invalid request: "))
    return value


UploadedFile = Annotated[
    Upload,
    PlainValidator(_as_upload),
    WithJsonSchema({"type": "string", "format": "binary"}),
    Field(description="The document. The extension of the file name decides the format."),
]


async def read_upload(request: Request, model: type[Model], settings: Settings) -> Model:
    """Returns the validated parameters of a multipart form with one file.

    Raises:
        ServiceError: The form cannot be read or is over a limit, the API key is not valid, or
            `model` does not accept the form.
        ClientDisconnect: The client closed the connection.
    """

    async def read(is_keyless: bool) -> dict[str, Any]:
        fields = merge(request.query_params.multi_items())
        if media_type(request) != MULTIPART:
            return fields
        limit = settings.max_file_bytes + FORM_BYTES
        try:
            body = await read_body(request, limit, BODY_SECONDS, is_keyless)
        except RequestTooLargeError:
            raise RequestTooLargeError(
                f"the file is over the limit of {settings.max_file_bytes} bytes; split it, or "
                "raise REGARD_MAX_FILE_BYTES"
            ) from None
        form = await parse_multipart(request.headers, body, FORM_BYTES, max_files=1)
        return {**merge(form), **fields}

    return validated(request, await permitted(request, read), model)
