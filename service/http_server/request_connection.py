"""Finds the connection of a request.

The schemas of requests import this module, so it must not import uvicorn.
"""

from typing import TYPE_CHECKING

from starlette.types import Scope

if TYPE_CHECKING:
    from service.http_server.connection import Connection

STATE_KEY = "connection"
"""Name of the connection in the state of a request's ASGI scope."""


def connection_of(scope: Scope) -> "Connection | None":
    """Returns the connection of a request; None if an ASGI client in the process sends it."""
    found: Connection | None = scope.get("state", {}).get(STATE_KEY)
    return found
