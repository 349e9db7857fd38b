"""The parts that a dialect adds to the application: routes, metric labels, shape of errors."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from service.api.errors import ErrorShape, own_shape

Endpoint = Callable[[Request], Awaitable[Response]]


@dataclass(frozen=True, slots=True)
class Dialect:
    """One API, such as LibreTranslate's or OpenAI's, as `app.py` mounts it.

    Attributes:
        routers: Routes of the dialect.
        tasks: Value of the label `task` in the metrics, by path. Other paths are not counted.
        direct: Endpoints that are called without the framework, by method and path.
        prefix: Prefix of the paths whose errors have the shape of this dialect; "" for none.
        error_shape: Returns the status and body of an error.
        id_header: Header below `prefix` that also has the id of the request; "" for none.
    """

    routers: tuple[APIRouter, ...]
    tasks: Mapping[str, str] = field(default_factory=dict)
    direct: Mapping[tuple[str, str], Endpoint] = field(default_factory=dict)
    prefix: str = ""
    error_shape: ErrorShape = own_shape
    id_header: str = ""


OWN = Dialect(())
"""The dialect of the paths below no prefix, for its shape of errors."""


def dialect_of(path: str, dialects: Sequence[Dialect]) -> Dialect:
    """Returns the dialect whose prefix a path has, and OWN for a path below no prefix."""
    for dialect in dialects:
        if dialect.prefix and path.startswith(dialect.prefix):
            return dialect
    return OWN
