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
    """One API, such as LibreTranslate's, or one version of an API. `app.py` mounts it.

    Attributes:
        routers: Routes of the dialect.
        tasks: Maps a path to the value of the label `task` in the metrics. The metrics count only
            requests to these paths.
        direct: Maps method and path to an endpoint that the middleware calls without FastAPI.
        prefix: Prefix of the dialect's paths, or "". Errors at unknown paths with this prefix have
            the shape of the dialect.
        error_shape: Function that returns the status and body of an error.
        id_header: Second header with the id of the request, besides X-Request-Id; "" for none.
        scope: Scope that an API key needs for the routes of the dialect.
    """

    routers: tuple[APIRouter, ...]
    tasks: Mapping[str, str] = field(default_factory=dict)
    direct: Mapping[Route, Endpoint] = field(default_factory=dict)
    prefix: str = ""
    error_shape: ErrorShape = own_shape
    id_header: str = ""
    scope: str = "translate"

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


OWN = Dialect(())
"""The dialect of all paths that belong to no other dialect. Their errors have the default shape."""


class DialectOf:
    """Finds the dialect of a request. The dialect gives the shape of errors and the task label.

    Args:
        dialects: All dialects. A dialect owns its routes, and all unknown paths that start with
            the prefix of the dialect.
    """

    def __init__(self, dialects: Sequence[Dialect]) -> None:
        self.by_route = {route: each for each in dialects for route in each.routes}
        self.prefixed = [each for each in dialects if each.prefix]

    def __call__(self, method: str, path: str) -> Dialect:
        """Returns the dialect of a method and a path, or OWN if there is none."""
        if dialect := self.by_route.get((method, path)):
            return dialect
        for dialect in self.prefixed:
            if path.startswith(dialect.prefix):
                return dialect
        return OWN
