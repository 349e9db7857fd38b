"""The parts that a dialect adds to the application: routes, metric labels, shape of errors."""

from collections.abc import Awaitable, Callable, Mapping
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
    """

    routers: tuple[APIRouter, ...]
    tasks: Mapping[str, str] = field(default_factory=dict)
    direct: Mapping[tuple[str, str], Endpoint] = field(default_factory=dict)
    prefix: str = ""
    error_shape: ErrorShape = own_shape


def shape_of(path: str, shapes: Mapping[str, ErrorShape]) -> ErrorShape:
    """Returns the shape of errors at a path.

    Args:
        path: Path of a request.
        shapes: Shapes by the prefix of the paths that have them.
    """
    for prefix, shape in shapes.items():
        if path.startswith(prefix):
            return shape
    return own_shape
