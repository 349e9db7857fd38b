"""The state that the connection of a request shares with the application.

The schemas of requests import this module, so it must not import uvicorn.
"""

from typing import TYPE_CHECKING

from starlette.types import Scope

if TYPE_CHECKING:
    from service.http_server.connection import Connection

STATE_KEY = "connection"
"""Name of the connection in the state of a request's ASGI scope."""

ADMITTED_KEY = "is_admitted"
"""Name of a flag in the same state: whether `LoopLoad.admits` has accepted the request.

The flag is false if the turn of the event loop had no time left for the client. LoopLoad decides
this before the scheduler's admission. The flag is missing if the connection has not counted the
request.
"""

ARRIVED_KEY = "arrived"
"""Name of a time in the same state, by time.perf_counter.

It is the start of the turn of the event loop in which the request arrived. In a long turn, the
request waits before the application sees it, and its deadline counts from this start. The time is
missing if the connection has not counted the request.
"""


def connection_of(scope: Scope) -> "Connection | None":
    """Returns the connection of a request; None if an ASGI client in this process sent it."""
    found: Connection | None = scope.get("state", {}).get(STATE_KEY)
    return found


def has_body(scope: Scope) -> bool:
    """Returns whether the whole body of a running request has arrived."""
    connection = connection_of(scope)
    running = connection.running if connection is not None else None
    return running is not None and not running.more_body
