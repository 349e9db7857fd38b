"""Parameters of a request: pydantic models that accept null, and messages for their errors."""

import re
from typing import Annotated, Any, NoReturn, TypeVar

from pydantic import (
    BaseModel,
    BeforeValidator,
    Field,
    GetJsonSchemaHandler,
    ValidationError,
    model_validator,
)
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, ErrorDetails, PydanticCustomError
from starlette.requests import Request

from service.api import error_texts
from service.api.access.keys import permitted
from service.api.error_texts import ErrorText
from service.api.request.body import JSON, media_type, read_fields
from service.errors import InvalidRequestError

REFUSED = "refused"
"""Type of a validation error whose message is already written for the client."""

BOUNDS = {"greater_than_equal": (">=", "ge"), "less_than_equal": ("<=", "le")}

NOT_INTEGERS = ("int_parsing", "int_parsing_size", "int_type", "int_from_float")
"""Types of the validation errors that pydantic raises if a value is not an integer.

orjson reads an integer of more than 64 bits as a float, and pydantic refuses a float of this size.
"""

ABOUT = ("title", "description", "default")
"""Keys of a JSON schema that describe a parameter and do not restrict its values."""

Model = TypeVar("Model", bound=BaseModel)
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
    """Returns the JSON schema of a parameter, changed so that it also accepts null."""
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


async def read_parameters(request: Request, model: type[Model], max_bytes: int) -> Model:
    """Returns the validated parameters of a request, from its JSON body, form or query.

    The API key is checked before the parameters. A caller without a key thus learns nothing about
    the parameters.

    Raises:
        MissingKeyError: The server needs a key, and the request has none.
        InvalidKeyError: The request has a wrong key.
        ForbiddenError: The key does not have the scope of the route.
        RateLimitedError: The key has used up its limit for this minute.
        RequestTooLargeError: The body is over `max_bytes`, or over the limit of the key.
        InvalidRequestError: The body cannot be read, or `model` does not accept it.
        OverloadedError: The memory budget has no room for the body.
        DeadlineExceededError: The body did not arrive in time.
        ClientDisconnect: The client closed the connection.
    """
    return validated(request, await read_permitted(request, max_bytes), model)


async def read_permitted(request: Request, max_bytes: int) -> dict[str, Any]:
    """Returns the fields of a request whose API key is valid.

    Raises:
        MissingKeyError: The server needs a key, and the request has none.
        InvalidKeyError: The request has a wrong key.
        ForbiddenError: The key does not have the scope of the route.
        RateLimitedError: The key has used up its limit for this minute.
        RequestTooLargeError: The body is over `max_bytes`, or over the limit of the key.
        InvalidRequestError: The body cannot be read.
        OverloadedError: The memory budget has no room for the body.
        DeadlineExceededError: The body did not arrive in time.
        ClientDisconnect: The client closed the connection.
    """
    return await permitted(request, lambda is_keyless: read_fields(request, max_bytes, is_keyless))


def validated(request: Request, fields: dict[str, Any], model: type[Model]) -> Model:
    """Returns the validated parameters of a request from its fields.

    Raises:
        InvalidRequestError: `model` does not accept the fields.
    """
    try:
        return model.model_validate(fields)
    except ValidationError as error:
        text, details = describe(error)
        param = first_fault(error)[1]
        details = _json_hint(request, fields) or details
        raise InvalidRequestError(text, param=param, details=details) from None


def check_given(**texts: str) -> None:
    """Refuses texts that are empty or only white space, as LibreTranslate does.

    Args:
        texts: Maps the name of each parameter to its text.

    Raises:
        InvalidRequestError: A text is empty or only white space.
    """
    for name, text in texts.items():
        if not text.strip():
            raise InvalidRequestError(error_texts.missing(name).text, param=name)


def _json_hint(request: Request, fields: dict[str, Any]) -> str:
    """Returns a hint for a JSON body that was sent and parsed as a form; "" for other bodies."""
    looks_like_json = any(name.lstrip().startswith("{") for name in fields)
    if media_type(request) != JSON and looks_like_json:
        return f"the body looks like JSON: send it with Content-Type: {JSON}"
    return ""


def describe(error: ValidationError) -> ErrorText:
    """Returns the error text for the first fault of a validation error."""
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
