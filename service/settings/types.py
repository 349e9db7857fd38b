"""Types that several groups of settings use."""

from typing import Annotated

from pydantic import Field, SecretStr
from pydantic_settings import NoDecode

PositiveInt = Annotated[int, Field(ge=1)]

Names = Annotated[tuple[str, ...], NoDecode]
"""A list that an environment variable gives as names separated by commas."""

NO_SECRET = SecretStr("")


def split_names(value: object) -> object:
    """Splits a text at its commas into names. Returns other values unchanged."""
    if isinstance(value, str):
        return tuple(part.strip() for part in value.split(",") if part.strip())
    return value
