"""Ends an HTTP process, which drains before it closes its listening sockets.

After SIGTERM, /health/ready answers 503, and requests are still served for the drain delay, so that
proxies choose another replica. Then new work is refused with 503. The sockets are closed when the
open requests have ended, when their time is over, or at a second signal.
"""

import asyncio
import math
import os
import socket
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

import uvicorn

from service.http_server.connection import Connection, HttpServerConfig
from service.ipc.machine import map_large_blocks

FIRST_REQUEST_SECONDS = 0.25
"""Longest wait for the first request of a connection, after the listening sockets are closed."""

CHECK_SECONDS = 0.01  # time between two checks whether the first requests have arrived

MAX_ACCEPTED = 32
"""Largest number of connections that one call accepts; other processes share the socket."""


@dataclass(eq=False)
class Drain:
    """The phases in which an HTTP process ends."""

    num_open: Callable[[], int]  # returns the number of running requests of the process
    delay_seconds: float  # for which requests are still served after `begin`
    timeout_seconds: float  # of open requests after that delay
    began: float = math.inf
    # If True, responses close their connections, so that clients with persistent connections also
    # change to another replica.
    has_begun: bool = False
    refuses_work: bool = False

    def begin(self, has_delay: bool = True) -> None:
        """Starts the drain of the process. Later calls can only remove the delay."""
        if not has_delay:
            self.delay_seconds = 0.0
        if not self.has_begun:
            self.has_begun, self.began = True, time.monotonic()

    @property
    def remaining_seconds(self) -> float:
        end = self.began + self.delay_seconds + self.timeout_seconds
        return max(0.0, end - time.monotonic())

    def advance(self) -> bool:
        """Begins to refuse work after the delay. Returns whether the sockets can be closed."""
        if time.monotonic() < self.began + self.delay_seconds:
            return False
        if not self.refuses_work:
            self.refuses_work = True
            return False
        return not (self.num_open() and self.remaining_seconds)


class Acceptor:
    """Accepts all connections that wait on the listening sockets, in addition to uvloop.

    uvloop accepts one connection in each turn of the event loop. Under load a turn takes some
    milliseconds, so new clients would wait for seconds.
    """

    def __init__(
        self,
        listeners: Iterable[socket.socket],
        new_protocol: Callable[[], asyncio.Protocol],
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        self.listeners = [socket.socket(fileno=os.dup(each.fileno())) for each in listeners]
        self.new_protocol = new_protocol
        self.loop = loop
        self.tasks: set[asyncio.Task[None]] = set()
        self.is_due = False

    def accept_soon(self) -> None:
        if not self.is_due:
            self.is_due = True
            self.loop.call_soon(self._accept)

    def close(self) -> None:
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


class DrainingServer(uvicorn.Server):
    config: HttpServerConfig

    def __init__(self, config: HttpServerConfig, drain: Drain) -> None:
        super().__init__(config)
        self.drain = drain
        self.acceptor: Acceptor | None = None
        self.on_started: Callable[[], None] = lambda: None  # called when the sockets are open
        self.on_drain: Callable[[], None] = lambda: None  # called once, at the start
        # Called in the event loop when the server must end at once.
        self.on_force: Callable[[], None] = lambda: None

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        map_large_blocks()  # of bodies and documents
        await super().startup(sockets)
        if self.should_exit:
            return
        listeners = [each for server in self.servers for each in server.sockets]
        loop = asyncio.get_running_loop()
        new = partial(Connection, self.config, self.server_state, self.lifespan.state)
        self.acceptor = Acceptor(listeners, new, loop)
        self.config.pool.on_added = self.acceptor.accept_soon
        self.on_started()

    async def on_tick(self, counter: int) -> bool:
        """Returns whether the sockets can be closed; uvicorn asks this every 0.1 s."""
        if not await super().on_tick(counter):
            return False
        self._begin()
        return self.force_exit or self.drain.advance()

    async def shutdown(self, sockets: Any = None) -> None:
        self._begin()  # a signal during the start of the application ends the server without a tick
        self.drain.refuses_work = True
        if self.force_exit:
            self.on_force()
        if self.acceptor is not None:
            self.acceptor.close()
        for listening in self.servers:
            listening.close()
        await self._await_first_requests()
        self.config.timeout_graceful_shutdown = math.ceil(self.drain.remaining_seconds)
        await super().shutdown(sockets)

    async def _await_first_requests(self) -> None:
        """Waits until each connection has had a request, for FIRST_REQUEST_SECONDS at most."""
        end = time.monotonic() + FIRST_REQUEST_SECONDS
        is_waiting = True
        while is_waiting and not self.force_exit and time.monotonic() < end:
            await asyncio.sleep(CHECK_SECONDS)
            connections = self.server_state.connections
            opened = [each for each in connections if isinstance(each, Connection)]
            is_waiting = any(each.cycle is None for each in opened)

    def _begin(self) -> None:
        if not self.drain.has_begun:
            self.drain.begin()
        on_drain, self.on_drain = self.on_drain, lambda: None
        on_drain()
