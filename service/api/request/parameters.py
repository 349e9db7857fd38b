"""Schemas of requests: pydantic models that accept null, messages for their errors, and OpenAPI."""

import re
from dataclasses import dataclass
from typing import Annotated, Any, NoReturn, TypeVar

from pydantic import (
    BaseModel,
    BeforeValidator,
    Field,
    GetJsonSchemaHandler,
    PlainValidator,
    ValidationError,
    WithJsonSchema,
    model_validator,
)
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, ErrorDetails, PydanticCustomError

from service.api import error_texts
from service.api.error_texts import ErrorText

JSON = "application/json"
FORM = "application/x-www-form-urlencoded"
MULTIPART = "multipart/form-data"

REFERENCE = "#/components/schemas/{model}"
REFUSED = "refused"  # type of a validation error whose message is already written for the client
BOUNDS = {"greater_than_equal": (">=", "ge"), "less_than_equal": ("<=", "le")}

NOT_INTEGERS = ("int_parsing", "int_parsing_size", "int_type", "int_from_float")
"""Types of the validation errors that pydantic raises if a value is not an integer.

orjson reads an integer of more than 64 bits as a float, and pydantic refuses a float of this size.
"""

ABOUT = ("title", "description", "default")
"""Keys of a JSON schema that describe a parameter and do not restrict its values."""

Member = TypeVar("Member")

ListOf = Annotated[list[Member], Field(fail_fast=True)]
"""A list whose validation stops at the first wrong member.

A list in a body may have 400,000 members. One error for each member would block all other requests
for seconds.
"""


def _refuse_bool(value: Any) -> Any:
    if isinstance(value, bool):
        raise PydanticCustomError("int_type", "true and false are no numbers")
    return value


NotBool = BeforeValidator(_refuse_bool)
"""Refuses true and false, which pydantic accepts as integers.

In `Annotated`, this validator must follow the bounds of a number. If it preceded the bounds, it
would hide them from OpenAPI.
"""

Natural = Annotated[int, Field(ge=0), NotBool]
"""An integer of at least 0; a form may send it as text."""

Positive = Annotated[int, Field(ge=1), NotBool]
"""An integer of at least 1; a form may send it as text."""


class Parameters(BaseModel):
    """The parameters of a request; null means the same as an absent parameter."""

    @model_validator(mode="before")
    @classmethod
    def _drop_nulls(cls, fields: Any) -> Any:
        if isinstance(fields, dict) and None in fields.values():
            return {name: value for name, value in fields.items() if value is not None}
        return fields

    @classmethod
    def __get_pydantic_json_schema__(
        cls, core_schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        """Changes the JSON schema so that each optional parameter may be null."""
        schema = handler(core_schema)
        fields = handler.resolve_ref_schema(schema)
        required = fields.get("required", ())
        fields["properties"] = {
            name: field if name in required else nullable(field)
            for name, field in fields["properties"].items()
        }
        return schema


def nullable(schema: dict[str, Any]) -> dict[str, Any]:
    null = {"type": "null"}
    about = {key: value for key, value in schema.items() if key in ABOUT}
    rest = {key: value for key, value in schema.items() if key not in ABOUT}
    members = rest.get("anyOf", [rest])
    if not rest or null in members:
        return schema
    return {"anyOf": [*members, null], **about}


def not_empty(schema: dict[str, Any]) -> None:
    """Adds a minimum length of 1 to the schema of a text or list, for `json_schema_extra`."""
    for member in schema.get("anyOf", [schema]):
        if member.get("type") in ("string", "array"):
            member["minLength" if member["type"] == "string" else "minItems"] = 1


def refuse(message: str) -> NoReturn:
    """Refuses the value that a validator checks, with an error message for the client."""
    raise PydanticCustomError(REFUSED, message)


@dataclass(frozen=True, slots=True)
class Upload:
    """A file of a multipart form."""

    name: str
    data: bytes


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


def describe(error: ValidationError) -> ErrorText:
    fault, name, where = first_fault(error)
    return _text(fault, name or "body", where)


def first_fault(error: ValidationError) -> tuple[ErrorDetails, str | None, str]:
    """Returns the first fault, the name of its parameter, and its place, such as `q[1]`.

    The name is None if the fault is in the body as a whole. The place is then `body`.
    """
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
    return fault, name, where


def _text(fault: ErrorDetails, name: str, where: str) -> ErrorText:
    kind, value = fault["type"], fault["input"]
    if kind == REFUSED:
        return ErrorText(f"Invalid request: {fault['msg']}")
    if kind == "missing":
        return error_texts.missing(where)
    if kind == "extra_forbidden":
        return error_texts.unknown(where)
    if kind == "literal_error":
        choices = fault["ctx"]["expected"].replace("'", "")
        return error_texts.not_supported(value, where, choices)
    if kind in BOUNDS:
        sign, limit = BOUNDS[kind]
        return error_texts.out_of_range(where, sign, fault["ctx"][limit], value)
    if kind in NOT_INTEGERS:
        is_float = isinstance(value, float)
        return error_texts.not_whole(where, value) if is_float else error_texts.not_a_number(where)
    found = f"it is {type(value).__name__}"
    return ErrorText(f"Invalid request: {where} parameter: {fault['msg']} ({found})")


def request_body(model: type[BaseModel], *media_types: str) -> dict[str, Any]:
    """Returns the OpenAPI fields of a route that reads the request body without FastAPI.

    The result refers to the body's schema in `components` of the OpenAPI document. At first the
    result itself holds the schema, in `$defs`. `move_definitions` moves the schema to `components`.
    """
    schema = model.model_json_schema(ref_template=REFERENCE)
    definitions = {**schema.pop("$defs", {}), model.__name__: schema}
    reference = {"$ref": REFERENCE.format(model=model.__name__), "$defs": definitions}
    content = {media_type: {"schema": reference} for media_type in media_types or (JSON,)}
    return {"requestBody": {"required": True, "content": content}}


def move_definitions(document: dict[str, Any]) -> None:
    schemas = document["components"]["schemas"]
    for operations in document["paths"].values():
        for operation in operations.values():
            for content in operation.get("requestBody", {"content": {}})["content"].values():
                schemas.update(content["schema"].pop("$defs", {}))
