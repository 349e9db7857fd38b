"""The main process of a simulated server: an event loop that uses CPU time."""

from collections.abc import Callable
from functools import partial
from typing import Any

from benchmarks.capacity.processors import Processors
from benchmarks.capacity.virtual_time import Timer

Act = Callable[[], object]


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
