"""Virtual time: the clock, the cores of a machine, and the event loop of its main process.

A simulated minute takes about a second. Equal inputs give equal results.
"""

import heapq
import itertools
import math
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from types import SimpleNamespace
from typing import Any
from unittest import mock

from service.http_server import loop_load
from service.scheduling import admission, forecast, lanes, policies, scheduler, worker_state

CLOCKED = (admission, forecast, lanes, policies, scheduler, worker_state)
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
        for asynchronous in (loop_load, scheduler):
            stack.enter_context(mock.patch.object(asynchronous, "asyncio", loop))
        yield clock


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


class EventLoop:
    """Runs callbacks in turns; a turn takes the CPU time of its callbacks.

    A callback calls `charge` with its CPU time, and `after` for effects outside the process, such
    as messages. These effects happen at the end of the turn.
    """

    def __init__(self, processors: Processors) -> None:
        self.processors = processors
        self.clock = processors.clock
        self.used_seconds = 0.0
        self._ready: list[Act] = []
        self._arrived: list[Act] = []  # passed to `receive`, for the next turn
        self._effects: list[Act] = []
        self._is_running = False

    def receive(self, act: Act) -> None:
        self._arrived.append(act)
        self._wake()

    def call_soon(self, act: Callable[..., object], *args: Any) -> None:
        self._ready.append(partial(act, *args) if args else act)
        self._wake()

    def call_later(self, seconds: float, act: Callable[..., object], *args: Any) -> Timer:
        return self.clock.call_later(seconds, act, *args)

    def charge(self, seconds: float) -> None:
        self.used_seconds += seconds

    def after(self, act: Act) -> None:
        """Calls a function at the end of this turn, or now if no turn is running."""
        if self._is_running:
            self._effects.append(act)
        else:
            act()

    def _wake(self) -> None:
        if not self._is_running:
            self._is_running = True
            self.processors.run(0.0, self._turn)

    def _turn(self) -> None:
        before = self.used_seconds
        acts = self._ready + self._arrived
        self._ready, self._arrived = [], []
        self.clock.running_loop = self
        for act in acts:
            act()
        self.clock.running_loop = self.clock
        self.processors.run(self.used_seconds - before, self._end)

    def _end(self) -> None:
        self._is_running = False
        effects, self._effects = self._effects, []
        for effect in effects:
            effect()
        if self._ready or self._arrived:
            self._wake()
