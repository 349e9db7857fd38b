"""Messages for the errors of a request's parameters, uploaded files, and OpenAPI of a body."""

import re
from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import Header
from pydantic import BaseModel, Field, PlainValidator, ValidationError, WithJsonSchema
from pydantic_core import ErrorDetails

from service.api import error_texts
from service.errors import SHOWN_CHARS, InvalidRequestError
from service.state.documents import Content
from service.tasks.parameters import REFUSED, json_type, refuse

JSON = "application/json"
FORM = "application/x-www-form-urlencoded"
MULTIPART = "multipart/form-data"

REFERENCE = "#/components/schemas/{model}"
BOUNDS = {"greater_than_equal": (">=", "ge"), "less_than_equal": ("<=", "le")}

OBJECT = re.compile("dictionary(?: or .+)?")
"""Names of an object in pydantic's messages, such as `dictionary or instance of TextItem`."""

NOT_INTEGERS = ("int_parsing", "int_parsing_size", "int_type", "int_from_float")
"""Types of the validation errors that pydantic raises if a value is not an integer.

orjson reads an integer of more than 64 bits as a float, and pydantic refuses a float of this size.
"""


AcceptLanguage = Annotated[str | None, Header(max_length=1024)]


@dataclass(frozen=True, slots=True)
class Upload:
    """A file of a multipart form."""

    name: str
    data: Content


def _as_upload(value: Any) -> Upload:
    if not isinstance(value, Upload):
        refuse("file parameter must be a file; send one file in a multipart form")
    if not value.name or not value.data:
        refuse("empty file")
    return value


UploadedFile = Annotated[
    Upload,
    PlainValidator(_as_upload),
    WithJsonSchema({"type": "string", "format": "binary"}),
    Field(description="The document. The extension of the file name decides the format."),
]


def describe(error: ValidationError) -> InvalidRequestError:
    """Returns the error for the first fault, which names its place, such as `q[1]`."""
    faults = error.errors(include_url=False)
    # A union has one fault for each member type. The fault with the longest place is most exact.
    first = [fault for fault in faults if fault["loc"][:1] == faults[0]["loc"][:1]]
    fault = max(first, key=lambda fault: len(fault["loc"]))
    # For a union, pydantic puts the member type into the place: ("q", "list[str]", 1).
    types = re.compile(r"\[|^(str|int|constrained-int)$")
    # The first part of a place is the name of a parameter. If the fault is an unknown parameter,
    # the last part is the name of this parameter. Both parts are kept, even if they match `types`.
    kept = {0, len(fault["loc"]) - 1 if fault["type"] == "extra_forbidden" else 0}
    place = [
        part for at, part in enumerate(fault["loc"]) if at in kept or not types.search(str(part))
    ]
    name = str(place[0]) if place else None
    where = (name or "body") + "".join(f"[{part}]" for part in place[1:])
    found = _error(fault, where)
    found.param = name
    return found


def _error(fault: ErrorDetails, where: str) -> InvalidRequestError:
    kind, value = fault["type"], fault["input"]
    if kind == REFUSED:
        return InvalidRequestError(f"Invalid request: {fault['msg']}")
    if kind == "missing":
        return error_texts.missing(where)
    if kind == "extra_forbidden":
        message = f"Invalid request: there is no {where[:SHOWN_CHARS]} parameter"
        return InvalidRequestError(message, details="/docs lists all parameters")
    if kind == "literal_error":
        choices = fault["ctx"]["expected"].replace("'", "")
        shown = str(value) if type(value) in (str, int, float) else json_type(value)
        message = f"{shown[:SHOWN_CHARS]} {where} is not supported"
        return InvalidRequestError(message, details=f"use {choices}")
    if kind in BOUNDS:
        sign, limit = BOUNDS[kind]
        return error_texts.out_of_range(where, sign, fault["ctx"][limit], value)
    if kind in NOT_INTEGERS:
        shown = str(value) if type(value) in (str, float) else json_type(value)
        details = f"send a number that is whole and has up to 64 bits, not {shown[:SHOWN_CHARS]}"
        message = f"Invalid request: {where} parameter is not a number"
        return InvalidRequestError(message, details=details)
    if kind == "bool_parsing":
        shown = str(value)[:SHOWN_CHARS]
        return InvalidRequestError(
            f"Invalid request: {where} parameter must be true or false, not {shown}"
        )
    message = OBJECT.sub("object", fault["msg"])
    found = f"it is {json_type(value)}"
    return InvalidRequestError(f"Invalid request: {where} parameter: {message} ({found})")


def described(body: type[BaseModel], response: Any, *media_types: str) -> dict[str, Any]:
    """Returns the arguments by which FastAPI describes a route that reads its own body.

    The result refers to the body's schema in `components` of the OpenAPI document. At first the
    result itself holds the schema, in `$defs`. `move_definitions` moves the schema to `components`.
    A field `body` is the whole body; the other fields are then in the query.

    Args:
        response: Type of the response.
        media_types: Media types of the body; without any, it is JSON.
    """
    schema = body.model_json_schema(ref_template=REFERENCE)
    definitions = schema.pop("$defs", {})
    extra: dict[str, Any] = {}
    if whole := schema["properties"].get("body"):
        reference = {**whole, "$defs": definitions}
        extra["parameters"] = [each for each in query_parameters(body) if each["name"] != "body"]
    else:
        definitions[body.__name__] = schema
        reference = {"$ref": REFERENCE.format(model=body.__name__), "$defs": definitions}
    content = {media_type: {"schema": reference} for media_type in media_types or (JSON,)}
    extra["requestBody"] = {"required": "required" in schema, "content": content}
    return {"response_model": response, "openapi_extra": extra}


def described_query(model: type[BaseModel], response: Any) -> dict[str, Any]:
    """Returns the same arguments as `described`, for a route with parameters in the query."""
    return {"response_model": response, "openapi_extra": {"parameters": query_parameters(model)}}


def query_parameters(model: type[BaseModel]) -> list[dict[str, Any]]:
    """Returns the fields of a model, as OpenAPI describes the parameters of a query."""
    schema = model.model_json_schema()
    required = schema.get("required", ())
    return [
        {
            "name": name,
            "in": "query",
            "required": name in required,
            "description": field.pop("description"),
            "schema": field,
        }
        for name, field in schema["properties"].items()
    ]


def move_definitions(document: dict[str, Any]) -> None:
    schemas = document["components"]["schemas"]
    for operations in document["paths"].values():
        for operation in operations.values():
            for content in operation.get("requestBody", {"content": {}})["content"].values():
                for name, schema in content["schema"].pop("$defs", {}).items():
                    if schemas.setdefault(name, schema) != schema:
                        raise TypeError(f"two schemas have the name {name}")
