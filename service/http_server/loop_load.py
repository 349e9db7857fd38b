"""Keeps the turns of an event loop short while more requests arrive than it can handle.

A turn is one pass of the event loop over everything that is ready, such as all requests that have
arrived since the last turn. Each request takes a part of a millisecond before it is admitted or
refused. If more arrive than the process can handle, turns get longer and longer, and even requests
that are admitted are then answered too late. A request that is refused here, before its body is
read, takes a third of that time.
"""

import asyncio
from collections import Counter
from collections.abc import Callable
from time import perf_counter

from service.errors import OverloadedError

TARGET_SECONDS = 0.02
"""Longest turn that is not too long."""

PATIENCE_SECONDS = 0.2
"""Requests are refused if all turns have been too long for this time. A single burst is handled."""

MIN_REQUESTS = 8
"""Number of requests that every turn may handle."""


class LoopLoad:
    """Measures the turns that have requests, and limits the number of requests in a turn.

    Args:
        clock: Returns the time in seconds.

    Attributes:
        is_overloaded: Whether turns have a limit.
        limit: Largest number of requests of a turn. Its clients share them evenly.
    """

    def __init__(self, clock: Callable[[], float] = perf_counter) -> None:
        self.clock = clock
        self.is_overloaded = False
        self.limit = MIN_REQUESTS
        self._began: float | None = None  # of this turn
        self._handled: Counter[str] = Counter()  # requests of this turn, by client
        self._num_clients = 1  # of the last turn
        self._num_refused = 0  # of this turn
        self._changing_since: float | None = None

    def check(self, client: str) -> None:
        """Counts a request of this turn.

        Args:
            client: Address of the client.

        Raises:
            OverloadedError: The turn has no time left for this client.
        """
        if self._began is None:
            self._began = self.clock()
            asyncio.get_running_loop().call_soon(self._end)
        if self.is_overloaded and self._handled[client] >= max(1, self.limit // self._num_clients):
            self._num_refused += 1
            raise OverloadedError(
                "more requests arrive than the server can read. Try again later.", 1, "requests"
            )
        self._handled[client] += 1

    def _end(self) -> None:
        """Measures a turn that has ended, and sets the limit of the next one."""
        assert self._began is not None
        now = self.clock()
        seconds = now - self._began
        num_handled = self._handled.total()
        self.limit = max(MIN_REQUESTS, int(TARGET_SECONDS * num_handled / max(seconds, 1e-9)))
        # An overload ends when turns of any length have refused nothing for some time.
        is_changing = not self._num_refused if self.is_overloaded else seconds > TARGET_SECONDS
        if not is_changing:
            self._changing_since = None
        elif self._changing_since is None:
            self._changing_since = now
        elif now - self._changing_since > PATIENCE_SECONDS:
            self.is_overloaded = not self.is_overloaded
            self._changing_since = None
        self._began, self._num_refused = None, 0
        self._num_clients = max(1, len(self._handled))
        self._handled.clear()
