"""Accepts all connections that wait on the listening sockets of an HTTP process.

uvloop accepts one connection in each turn of the event loop. Under load a turn takes some
milliseconds, so new clients would wait for seconds. When the queue of the socket is full, the
operating system of a new client tries to connect again only after one second or more.
"""

import asyncio
import os
import socket
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Protocol

MAX_ACCEPTED = 32
"""Largest number of connections that one call accepts from a socket.

Other HTTP processes accept from the same socket. The limit lets them get connections too.
"""


class Listener(Protocol):
    """A listening socket."""

    def fileno(self) -> int:
        """Returns the socket's file descriptor."""


class Acceptor:
    """Accepts connections in addition to uvloop.

    Args:
        listeners: Listening sockets in non-blocking mode. Their descriptors are duplicated.
        new_protocol: Makes the protocol of a connection.
        loop: The event loop.
    """

    def __init__(
        self,
        listeners: Iterable[Listener],
        new_protocol: Callable[[], asyncio.Protocol],
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        self.listeners = [socket.socket(fileno=os.dup(each.fileno())) for each in listeners]
        self.new_protocol = new_protocol
        self.loop = loop
        self.tasks: set[asyncio.Task[None]] = set()
        self.is_due = False

    def accept_soon(self) -> None:
        """Accepts connections after this turn of the event loop.

        The pool calls this method for each new connection, because more connections may wait.
        """
        if not self.is_due:
            self.is_due = True
            self.loop.call_soon(self._accept)

    def close(self) -> None:
        """Stops accepting connections."""
        for listener in self.listeners:
            listener.close()
        self.listeners.clear()

    def _accept(self) -> None:
        self.is_due = False
        for listener in self.listeners:
            with suppress(OSError):  # no connection waits, or too many descriptors are open
                for _ in range(MAX_ACCEPTED):
                    connection, _ = listener.accept()
                    task = self.loop.create_task(self._connect(connection))
                    self.tasks.add(task)
                    task.add_done_callback(self.tasks.discard)

    async def _connect(self, connection: socket.socket) -> None:
        connection.setblocking(False)
        with suppress(OSError):  # the client has closed the connection
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            await self.loop.connect_accepted_socket(self.new_protocol, connection)
