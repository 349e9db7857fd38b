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
from time import perf_counter, thread_time

from service.errors import OverloadedError

TARGET_SECONDS = 0.02
"""Longest turn that is not too long, while requests are also refused for other limits."""

LONG_CPU_SECONDS = 0.1
"""CPU seconds of a turn that is too long even if all requests are admitted. A hundred clients that
each wait for their response make no such turn, even if their requests come at the same moment. Time
in which other programs use the processor does not count."""

PATIENCE_SECONDS = 0.2
"""Requests are refused if all turns have been too long for this time. A single burst is handled."""

MIN_REQUESTS = 8
"""Number of requests that every turn may handle."""


class LoopLoad:
    """Measures the turns that have requests, and limits the number of requests in a turn.

    Args:
        clock: Returns the time in seconds.
        cpu_clock: Returns the CPU time of the thread, in seconds.

    Attributes:
        is_overloaded: Whether turns have a limit.
        limit: Largest number of requests of a turn. Its clients share them evenly.
    """

    def __init__(
        self,
        clock: Callable[[], float] = perf_counter,
        cpu_clock: Callable[[], float] = thread_time,
    ) -> None:
        self.clock = clock
        self.cpu_clock = cpu_clock
        self.is_overloaded = False
        self.limit = MIN_REQUESTS
        self._began: float | None = None  # time at the begin of this turn
        self._cpu_began = 0.0  # CPU time at the begin of this turn
        self._handled: Counter[str] = Counter()  # requests of this turn, by client
        self._num_clients = 1  # of the last turn
        self._num_refused = 0  # of this turn
        self._was_over_limit = False  # a request of this turn was refused for another limit
        self._changing_since: float | None = None

    def check(self, client: str) -> None:
        """Counts a request of this turn.

        Args:
            client: Address of the client.

        Raises:
            OverloadedError: The turn has no time left for this client.
        """
        if self._began is None:
            self._began, self._cpu_began = self.clock(), self.cpu_clock()
            asyncio.get_running_loop().call_soon(self._end)
        if self.is_overloaded and self._handled[client] >= max(1, self.limit // self._num_clients):
            self._num_refused += 1
            raise OverloadedError(
                "more requests arrive than the server can read. Try again later.", 1, "requests"
            )
        self._handled[client] += 1

    def add_refusal(self) -> None:
        """Counts a request that was refused for another limit, such as its deadline."""
        self._was_over_limit = True

    def _is_too_long(self, seconds: float) -> bool:
        """Returns whether this turn, which ends now, shows an overload.

        Args:
            seconds: Length of the turn.
        """
        if self._was_over_limit and seconds > TARGET_SECONDS:
            return True
        return self.cpu_clock() - self._cpu_began > LONG_CPU_SECONDS

    def _end(self) -> None:
        """Measures a turn that has ended, and sets the limit of the next one."""
        assert self._began is not None
        now = self.clock()
        seconds = now - self._began
        num_handled = self._handled.total()
        self.limit = max(MIN_REQUESTS, int(TARGET_SECONDS * num_handled / max(seconds, 1e-9)))
        # An overload ends when turns of any length have refused nothing for some time.
        if self.is_overloaded:
            is_changing = not self._num_refused
        else:
            is_changing = self._is_too_long(seconds)
        if not is_changing:
            self._changing_since = None
        elif self._changing_since is None:
            self._changing_since = now
        elif now - self._changing_since > PATIENCE_SECONDS:
            self.is_overloaded = not self.is_overloaded
            self._changing_since = None
        self._began, self._num_refused, self._was_over_limit = None, 0, False
        self._num_clients = max(1, len(self._handled))
        self._handled.clear()
