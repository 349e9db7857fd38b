"""The open connections of an HTTP process: their number, their time limits, and their requests."""

import asyncio
import logging
import resource
from collections.abc import Callable
from typing import TYPE_CHECKING

from service.http_server.byte_budget import KEYLESS_SHARE, ByteBudget
from service.settings import Settings

if TYPE_CHECKING:  # a connection imports its pool
    from service.http_server.connection import Connection

logger = logging.getLogger("regard.http")

OWN_DESCRIPTORS = 128
"""Number of file descriptors that a process needs for other things than connections."""

MAX_REFUSED = 128
"""Largest number of connections over the limit that get a reply."""

IDLE_SECONDS = 1.0
"""Time after which an idle connection is closed if a new connection needs its place."""

CLOSED_AT_ONCE = 32
"""Number of idle connections that are closed together, so that the search for them is rare."""

SEARCH_SECONDS = 0.05
"""Pause after a search, of all connections, that has found fewer than CLOSED_AT_ONCE idle ones."""

CHECKS_PER_LIMIT = 8  # number of checks within the shortest time limit
MAX_CHECK_SECONDS = 1.0  # longest time between two checks of all connections


class ConnectionPool:
    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.budget = budget = ByteBudget(settings.max_buffered_bytes)
        # For bodies without an API key in a header, if keys are needed.
        self.keyless = ByteBudget(budget.max_bytes // KEYLESS_SHARE, budget)
        self.connections: set[Connection] = set()  # within the limit
        self.refused: set[Connection] = set()  # over the limit; they wait for their reply
        self.timer: asyncio.TimerHandle | None = None
        self.next_search = 0.0  # earliest time of the next search for idle connections
        self.on_added: Callable[[], None] = lambda: None
        shortest = min(
            settings.header_timeout_seconds,
            settings.idle_timeout_seconds,
            settings.write_timeout_seconds,
        )
        self.check_seconds = min(shortest / CHECKS_PER_LIMIT, MAX_CHECK_SECONDS)
        self.max_connections = raise_descriptors(settings.max_connections)

    def add(self, connection: "Connection", loop: asyncio.AbstractEventLoop) -> bool:
        """Adds a new connection. Returns whether it may send requests; if not, it gets a refusal.

        At the limit, connections that have been idle for IDLE_SECONDS are closed.
        """
        self.on_added()
        if self.timer is None:
            self.timer = loop.call_later(self.check_seconds, self._check, loop)
        if len(self.connections) >= self.max_connections:
            self._make_room(loop.time())
        if len(self.connections) >= self.max_connections:
            self.refused.add(connection)
            return False
        self.connections.add(connection)
        return True

    @property
    def is_flooded(self) -> bool:
        return len(self.refused) > MAX_REFUSED

    def discard(self, connection: "Connection") -> None:
        self.connections.discard(connection)
        self.refused.discard(connection)

    def _make_room(self, now: float) -> None:
        if now < self.next_search:
            return
        found = [
            (since, id(each), each)
            for each in self.connections
            if (since := each.idle_since) is not None and since <= now - IDLE_SECONDS
        ]
        for _, _, idle in sorted(found)[:CLOSED_AT_ONCE]:
            self.connections.discard(idle)
            idle.close()
        if len(found) < CLOSED_AT_ONCE:
            self.next_search = now + SEARCH_SECONDS

    def _check(self, loop: asyncio.AbstractEventLoop) -> None:
        now = loop.time()
        for connection in [*self.connections, *self.refused]:
            connection.check(now)
        # A reply is accepted when it is computed, even over the budget. Stalled clients then end.
        self.budget.make_room(0)
        self.timer = None
        if self.connections or self.refused:
            self.timer = loop.call_later(self.check_seconds, self._check, loop)


def raise_descriptors(max_connections: int) -> int:
    """Raises the soft limit of file descriptors; returns how many connections it allows."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = max_connections + OWN_DESCRIPTORS
    if soft == resource.RLIM_INFINITY or soft >= needed:
        return max_connections
    allowed = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, hard))
    num_connections = max(1, allowed - OWN_DESCRIPTORS)
    if allowed < needed:
        logger.warning(
            "REGARD_MAX_CONNECTIONS is %d, but the limit of open files, %d, allows only %d; "
            "raise the limit, for example by ulimit -n",
            max_connections,
            hard,
            num_connections,
        )
    return num_connections
