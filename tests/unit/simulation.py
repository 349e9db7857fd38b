"""A simulated server with two workers and a slow model, for tests of the scheduler.

Every process has a core of its own, and only the workers use CPU time.
"""

import random
from collections.abc import Callable

from benchmarks.capacity.costs import Costs, WorkerCosts
from benchmarks.capacity.simulation import Machine, Request
from benchmarks.capacity.virtual_time import Clock

ROWS = 16
STEP_SECONDS = 0.02
ROW_SECONDS = 0.002
TOKENS = (5, 40)
"""Smallest and largest number of tokens of a sentence."""

COSTS = Costs(
    WorkerCosts(
        step_seconds=STEP_SECONDS,
        row_seconds=ROW_SECONDS,
        tokens_per_call=1,
        small_tokens=1,
        max_rows=ROWS,
    ),
    num_cores=0,
)


class Simulation:
    """Offers requests to a simulated machine.

    Attributes:
        slowness: Factor of the time of each step.
        disturbance: Returns another factor of the time of the next step.
    """

    def __init__(self, clock: Clock, disturbance: Callable[[], float] = lambda: 1.0) -> None:
        self.clock = clock
        self.began = clock.now
        self.slowness = 1.0
        self.requests: list[Request] = []
        self.machine = Machine(clock, COSTS, lambda: self.slowness * disturbance(), 10**9, 10**9)

    @property
    def capacity(self) -> float:
        """Sentences per second while all rows are used."""
        step = (STEP_SECONDS + ROW_SECONDS * ROWS) * self.slowness
        return 2 * ROWS / (step * sum(TOKENS) / 2)

    @property
    def num_computed(self) -> int:
        return sum(worker.num_computed for worker in self.machine.workers)

    def send(self, deadline: float, count: int = 1) -> Request:
        """Sends a request of `count` sentences, which the server takes at once."""
        request = self._send(deadline, count)
        self.clock.run_until(self.clock.now)
        return request

    def _send(self, deadline: float, count: int) -> Request:
        sizes = [random.randint(*TOKENS) for _ in range(count)]
        request = Request(self.clock.now, [(size, size) for size in sizes], deadline)
        self.requests.append(request)
        self.machine.send(request)
        return request

    def offer(self, per_second: float, seconds: float, deadline: float) -> None:
        """Offers requests at random times, and runs until all have ended."""
        moment = 0.0
        while (moment := moment + random.expovariate(per_second)) < seconds:
            self.clock.call_later(moment, self._send, deadline, 1)
        self.clock.run_until(self.clock.now + seconds + deadline)

    def outcomes(self, name: str, since: float = 0.0) -> list[Request]:
        """Returns the requests with an outcome that were sent `since` seconds after the start."""
        begin = self.began + since
        return [each for each in self.requests if each.outcome == name and each.sent >= begin]
