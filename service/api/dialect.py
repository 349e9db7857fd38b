"""The table of all routes, and the dialects that they belong to.

FastAPI's routers describe the routes in /openapi.json. The middleware calls the endpoints of most
routes itself.
"""

import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from fastapi import APIRouter
from fastapi.routing import APIRoute
from starlette.requests import Request
from starlette.responses import Response

from service.api.errors import ErrorShape, own_shape

Endpoint = Callable[[Request], Awaitable[Response]]


@dataclass(frozen=True, slots=True)
class Dialect:
    """One API, such as LibreTranslate's, or one version of an API. `app.py` mounts it."""

    routers: tuple[APIRouter, ...]
    # Value of the label `task` in the metrics, by path. Requests to other paths are not counted.
    tasks: Mapping[str, str] = field(default_factory=dict)
    prefixes: tuple[str, ...] = ()  # of unknown paths whose errors have the shape of the dialect
    error_shape: ErrorShape = own_shape
    id_header: str = ""  # header with the id of the request, besides X-Request-Id; "" for none
    scope: str = "translate"  # that an API key needs for the routes of the dialect; "" for none
    # Paths of the dialect by the paths that its clients send. Other dialects have the same paths,
    # so only requests with `api-version` in the query belong to this one.
    versioned: Mapping[str, str] = field(default_factory=dict)

    @property
    def routes(self) -> dict[tuple[str, str], APIRoute]:
        routes = [each for router in self.routers for each in router.routes]
        return {
            (method, each.path): each
            for each in routes
            if isinstance(each, APIRoute)
            for method in each.methods or ()
        }


OWN = Dialect(())
"""The dialect of all paths that belong to no other dialect. Their errors have the default shape."""


class Route(NamedTuple):
    """One row of the table. Without an endpoint, the middleware calls FastAPI."""

    dialect: Dialect
    task: str | None
    endpoint: Endpoint | None = None


class Routes:
    """The table of all routes. A dialect owns its routes, and all other paths with its prefixes."""

    def __init__(self, dialects: Sequence[Dialect]) -> None:
        self.prefixed = [each for each in dialects if each.prefixes]
        self.versioned = {old: new for each in dialects for old, new in each.versioned.items()}
        self.table = {
            key: Route(dialect, dialect.tasks.get(key[1]), direct_endpoint(route))
            for dialect in dialects
            for key, route in dialect.routes.items()
        }
        # FastAPI answers requests with a wrong method.
        self.known = {
            path: route._replace(endpoint=None) for (_, path), route in self.table.items()
        }

    def path_of(self, path: str, query: bytes) -> str:
        """Returns the path in the table for the path and the query of a request.

        Some clients put a slash behind a path.
        """
        path = path.rstrip("/") or "/"
        return self.versioned.get(path, path) if b"&api-version=" in b"&" + query else path

    def unknown(self, path: str) -> Route:
        """Returns a row for a request with a wrong method, or with a parameter in its path."""
        if path in self.known:
            return self.known[path]
        dialects = (each for each in self.prefixed if f"{path}/".startswith(each.prefixes))
        return Route(next(dialects, OWN), None)


def direct_endpoint(route: APIRoute) -> Endpoint | None:
    """Returns the endpoint of a route if it takes only the request and returns a response.

    FastAPI would take as much time as all other work on a short text.
    """
    signature = inspect.signature(route.endpoint)
    is_direct = [*signature.parameters] == ["request"] and signature.return_annotation is Response
    return route.endpoint if is_direct else None
