"""The facts that the connection of a request passes to the application.

The application reads the requests of connections without uvicorn's types.
"""

from collections.abc import Callable
from typing import NamedTuple, Protocol

from service.http_server.pool import ConnectionPool
from service.http_server.reply_writer import UnreadReply

KEY = "arrival"
"""Name of the Arrival in the state of an ASGI scope."""


class ClientConnection(Protocol):
    """The connection of a request, as the application sees it."""

    pool: ConnectionPool
    unread: UnreadReply
    on_lost: Callable[[], None] | None

    def take_body(self) -> bytes | None:
        """Returns the body of the running request; None if a part of it has not arrived."""

    def watch(self, on_lost: Callable[[], None]) -> None:
        """Sets `on_lost`, which is called when the connection ends. The body has been read."""


class Arrival(NamedTuple):
    """The arrival of one request.

    Attributes:
        connection: Connection of the request; None if an ASGI client in this process sent it.
        is_admitted: Whether LoopLoad has accepted the request; None if it has not been counted.
        began: Start of the turn of the event loop in which the request arrived, by
            time.perf_counter. In a long turn, the request waits before the application sees it, and
            its deadline counts from this start.
    """

    connection: ClientConnection | None = None
    is_admitted: bool | None = None
    began: float | None = None


NO_ARRIVAL = Arrival()
