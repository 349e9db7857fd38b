"""The cores of a simulated machine, which its processes share."""

import heapq
import itertools
import math
from collections.abc import Callable

from benchmarks.capacity.virtual_time import Clock, Timer

Act = Callable[[], object]


class Processors:
    """Runs bursts of CPU time; if there are more bursts than cores, all become equally slower."""

    def __init__(self, clock: Clock, num_cores: float = math.inf) -> None:
        self.clock = clock
        self.num_cores = num_cores
        self.used_seconds = 0.0
        self._bursts: list[tuple[float, int, Act]] = []  # (value of _progress at the end, id, act)
        self._ids = itertools.count()
        self._progress = 0.0  # CPU seconds of a burst that runs since the start
        self._since = clock.now
        self._timer: Timer | None = None

    def run(self, seconds: float, act: Act) -> None:
        """Uses CPU time, then calls a function."""
        self.used_seconds += seconds
        if math.isinf(self.num_cores) or not seconds:
            self.clock.call_later(seconds, act)
            return
        self._advance()
        heapq.heappush(self._bursts, (self._progress + seconds, next(self._ids), act))
        self._schedule()

    @property
    def _speed(self) -> float:
        return min(1.0, self.num_cores / max(1, len(self._bursts)))

    def _advance(self) -> None:
        self._progress += (self.clock.now - self._since) * self._speed
        self._since = self.clock.now

    def _schedule(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._bursts:
            left = max(0.0, self._bursts[0][0] - self._progress)
            self._timer = self.clock.call_later(left / self._speed, self._end)

    def _end(self) -> None:
        self._timer = None
        self._advance()
        end, _, act = heapq.heappop(self._bursts)
        self._progress = max(self._progress, end)
        self._schedule()
        act()
