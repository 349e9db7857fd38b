"""Simulates the scheduler and workers that translate, in virtual time.

A simulated minute takes about a second, and its result is the same in each run.
"""

import heapq
import itertools
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest

from model.sequence import DecodingOptions, Hypothesis
from service.errors import OverloadedError
from service.items.base import WorkItem
from service.items.result import Done
from service.items.translation import TRANSLATE, TranslationItem
from service.metrics.definitions import Metrics
from service.scheduling import job, lanes, margin, scheduler, submission, worker_state
from service.scheduling.admission import Admission
from service.scheduling.scheduler import Scheduler
from service.tasks.table import TASKS, task_series
from service.workers.messages import Abort, Compute, Report, ToWorker

MODEL = "en-pt"
ROWS = 16
STEP_SECONDS = 0.02
ROW_SECONDS = 0.002
"""A decode step takes STEP_SECONDS, and ROW_SECONDS more for each row."""

TOKENS = (5, 40)
"""Smallest and largest number of tokens of a sentence."""


class Timer:
    """An event of the clock; a cancelled event does not happen."""

    def __init__(self, act: Callable[[], object]) -> None:
        self.act = act
        self.is_cancelled = False

    def cancel(self) -> None:
        self.is_cancelled = True


class Clock:
    """Virtual time. It replaces the event loop and the module `time` of the scheduler."""

    def __init__(self) -> None:
        self.now = 0.0
        self.events: list[tuple[float, int, Timer]] = []
        self.ids = itertools.count()

    def perf_counter(self) -> float:
        return self.now

    def call_later(self, seconds: float, act: Callable[..., object], *args: Any) -> Timer:
        timer = Timer(partial(act, *args))
        heapq.heappush(self.events, (self.now + seconds, next(self.ids), timer))
        return timer

    def run_until(self, end: float) -> None:
        while self.events and self.events[0][0] <= end:
            self.now, _, timer = heapq.heappop(self.events)
            if not timer.is_cancelled:
                timer.act()
        self.now = end


class SimulatedWorker:
    """Computes one token of all its rows in each step."""

    def __init__(self, simulation: "Simulation", name: str) -> None:
        self.simulation = simulation
        self.name = name
        self.left: dict[int, int] = {}
        self.items: dict[int, WorkItem] = {}
        self.is_busy = False
        simulation.scheduler.worker_ready(self, {MODEL: ROWS})

    def send(self, message: ToWorker) -> None:
        if isinstance(message, Compute):
            for item in message.items:
                self.items[item.id] = item
                self.left[item.id] = item.num_tokens
                self.simulation.num_computed += 1
        else:
            assert isinstance(message, Abort)
            for number in message.ids:
                self.items.pop(number, None)
                self.left.pop(number, None)
        self._step()

    def _step(self) -> None:
        if not self.is_busy and self.left:
            self.is_busy = True
            seconds = STEP_SECONDS + ROW_SECONDS * len(self.left)
            slowness = self.simulation.slowness * self.simulation.disturbance()
            self.simulation.clock.call_later(seconds * slowness, self._end_step)

    def _end_step(self) -> None:
        self.is_busy = False
        for number in self.left:
            self.left[number] -= 1
        ended = [number for number, left in self.left.items() if left <= 0]
        for number in ended:
            del self.left[number], self.items[number]
        if ended:
            done = [Done(number, [Hypothesis([1, 0])]) for number in ended]
            self.simulation.scheduler.report(self, Report(done=done))
        self._step()


@dataclass
class Request:
    """A simulated request, and its outcome: `ok`, `late` or `refused`; "" while it runs."""

    sent: float
    outcome: str = ""
    seconds: float = 0.0


@dataclass
class Simulation:
    """A scheduler with two workers.

    Attributes:
        slowness: Factor of the time of each step.
        disturbance: Returns another factor of the time of the next step.
        num_computed: Number of items that workers have received.
    """

    monkeypatch: pytest.MonkeyPatch
    clock: Clock = field(default_factory=Clock)
    slowness: float = 1.0
    disturbance: Callable[[], float] = lambda: 1.0
    num_computed: int = 0
    requests: list[Request] = field(default_factory=list)

    def __post_init__(self) -> None:
        random.seed(0)
        for module in (job, lanes, margin, scheduler, worker_state):
            self.monkeypatch.setattr(module, "time", self.clock)
        loop = SimpleNamespace(get_running_loop=lambda: self.clock, TimerHandle=Timer)
        self.monkeypatch.setattr(submission, "asyncio", loop)
        metrics = Metrics(series=task_series())
        metrics.add_model(MODEL, (TRANSLATE,))
        admission = Admission(10**9, 10**9)
        self.scheduler = Scheduler(TASKS, admission, metrics, partial(self.clock.call_later, 0.0))
        self.scheduler.add_model(MODEL, (TRANSLATE,))
        self.workers = [SimulatedWorker(self, f"worker-{index}") for index in range(2)]

    @property
    def capacity(self) -> float:
        """Sentences per second while all rows are used."""
        step = (STEP_SECONDS + ROW_SECONDS * ROWS) * self.slowness
        return 2 * ROWS / (step * sum(TOKENS) / 2)

    def send(self, deadline: float, count: int = 1) -> Request:
        """Sends a request of `count` sentences."""
        request = Request(self.clock.now)
        self.requests.append(request)
        items: list[WorkItem] = [
            TranslationItem(MODEL, [1] * random.randint(*TOKENS), DecodingOptions())
            for _ in range(count)
        ]
        try:
            stream = self.scheduler.submit(items, self.clock.now + deadline)
        except OverloadedError:
            request.outcome = "refused"
            return request

        def end() -> None:
            if stream.is_closed:
                request.outcome = "late" if stream.error else "ok"
                request.seconds = self.clock.now - request.sent

        self.monkeypatch.setattr(stream, "_wake", end)
        return request

    def offer(self, per_second: float, seconds: float, deadline: float, count: int = 1) -> None:
        """Offers requests at random times, and runs until all have ended."""
        moment = 0.0
        while (moment := moment + random.expovariate(per_second)) < seconds:
            self.clock.call_later(moment, self.send, deadline, count)
        self.clock.run_until(self.clock.now + seconds + deadline)

    def outcomes(self, name: str, since: float = 0.0) -> list[Request]:
        """Returns the requests with an outcome that were sent at `since` or later."""
        return [each for each in self.requests if each.outcome == name and each.sent >= since]
