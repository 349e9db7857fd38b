"""Virtual time: a simulated minute takes about a second. Equal inputs give equal results."""

import heapq
import itertools
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from types import SimpleNamespace
from typing import Any
from unittest import mock

from service.http_server import loop_load
from service.scheduling import (
    admission,
    job,
    lanes,
    policies,
    scheduler,
    submission,
    worker_state,
)
from service.scheduling.forecast import margin

CLOCKED = (admission, job, lanes, margin, policies, scheduler, worker_state)
"""Modules that read the time from the module `time`."""


class Timer:
    """An event of the clock; a cancelled event does not happen."""

    __slots__ = ("act", "is_cancelled")

    def __init__(self, act: Callable[[], object]) -> None:
        self.act = act
        self.is_cancelled = False

    def cancel(self) -> None:
        self.is_cancelled = True


class Clock:
    """Virtual time and the events that will happen."""

    def __init__(self) -> None:
        self.now = 0.0
        self.running_loop: Any = self
        self._events: list[tuple[float, int, Timer]] = []
        self._ids = itertools.count()

    def perf_counter(self) -> float:
        return self.now

    monotonic = perf_counter

    def call_later(self, seconds: float, act: Callable[..., object], *args: Any) -> Timer:
        timer = Timer(partial(act, *args) if args else act)
        heapq.heappush(self._events, (self.now + seconds, next(self._ids), timer))
        return timer

    def run_until(self, end: float) -> None:
        """Runs all events up to the time `end`, in order."""
        events = self._events
        while events and events[0][0] <= end:
            self.now, _, timer = heapq.heappop(events)
            if not timer.is_cancelled:
                timer.act()
        self.now = end


@contextmanager
def virtual_time(clock: Clock) -> Iterator[Clock]:
    """Lets the scheduler read the time from a clock, and set its timers there."""
    loop = SimpleNamespace(get_running_loop=lambda: clock.running_loop, TimerHandle=Timer)
    with ExitStack() as stack:
        for module in CLOCKED:
            stack.enter_context(mock.patch.object(module, "time", clock))
        for asynchronous in (loop_load, submission):
            stack.enter_context(mock.patch.object(asynchronous, "asyncio", loop))
        yield clock
