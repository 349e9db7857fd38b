"""The parts that a dialect adds to the application: routes, metric labels, shape of errors."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field

from fastapi import APIRouter
from fastapi.routing import APIRoute
from starlette.requests import Request
from starlette.responses import Response

from service.api.errors import ErrorShape, own_shape

Endpoint = Callable[[Request], Awaitable[Response]]

Route = tuple[str, str]
"""Method and path of a route."""


@dataclass(frozen=True, slots=True)
class Dialect:
    """One API, such as LibreTranslate's or OpenAI's, as `app.py` mounts it.

    Attributes:
        routers: Routes of the dialect.
        tasks: Value of the label `task` in the metrics, by path. Other paths are not counted.
        direct: Endpoints that are called without the framework, by method and path.
        prefix: Prefix of more paths whose errors have the shape of this dialect; "" for none.
        error_shape: Returns the status and body of an error.
    """

    routers: tuple[APIRouter, ...]
    tasks: Mapping[str, str] = field(default_factory=dict)
    direct: Mapping[Route, Endpoint] = field(default_factory=dict)
    prefix: str = ""
    error_shape: ErrorShape = own_shape

    @property
    def routes(self) -> set[Route]:
        """Returns the method and path of each route."""
        routes = [each for router in self.routers for each in router.routes]
        return {
            (method, each.path)
            for each in routes
            if isinstance(each, APIRoute)
            for method in each.methods or ()
        }


class ErrorShapes:
    """The shapes of errors of all dialects.

    Args:
        dialects: The shape of a dialect holds for its routes and for all paths with its prefix.
    """

    def __init__(self, dialects: Sequence[Dialect]) -> None:
        shaped = [each for each in dialects if each.error_shape is not own_shape]
        self.routes = {route: each.error_shape for each in shaped for route in each.routes}
        self.prefixes = {each.prefix: each.error_shape for each in shaped if each.prefix}

    def of(self, method: str, path: str) -> ErrorShape:
        """Returns the shape of the errors of a request."""
        if shape := self.routes.get((method, path)):
            return shape
        for prefix, shape in self.prefixes.items():
            if path.startswith(prefix):
                return shape
        return own_shape
