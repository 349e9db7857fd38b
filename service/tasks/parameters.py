"""Defines the types of parameters in requests: pydantic models that accept null, and bounds."""

import json
from typing import Annotated, Any, NoReturn, TypeVar

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    GetJsonSchemaHandler,
    model_validator,
)
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, PydanticCustomError

REFUSED = "refused"  # type of a validation error whose message is already written for the client

ABOUT = ("title", "description", "default")
"""Keys of a JSON schema that describe a parameter and do not restrict its values."""

Member = TypeVar("Member")

ListOf = Annotated[list[Member], Field(fail_fast=True)]
"""A list whose validation stops at the first wrong member; a body may have 400,000 of them."""


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
            name: field if name in required else _nullable(field)
            for name, field in fields["properties"].items()
        }
        return schema


def _nullable(schema: dict[str, Any]) -> dict[str, Any]:
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


NOT_EMPTY: Any = Field(json_schema_extra=not_empty)
Texts = Annotated[str | ListOf[str], NOT_EMPTY]
TextList = Annotated[ListOf[str], NOT_EMPTY]


def example(**fields: Any) -> ConfigDict:
    """Returns the config of a model whose schema shows an example."""
    return ConfigDict(json_schema_extra={"example": fields})


def json_type(value: Any) -> str:
    if value is None or isinstance(value, bool):
        return json.dumps(value)
    names = {str: "a string", int: "a number", float: "a number", list: "a list", dict: "an object"}
    return names.get(type(value), "a file")


def refuse(message: str) -> NoReturn:
    """Refuses the value that a validator checks, with an error message for the client."""
    raise PydanticCustomError(REFUSED, message)
