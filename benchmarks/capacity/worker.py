"""A simulated device worker: it uses the CPU time of a real worker, but runs no model."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from benchmarks.capacity.costs import WorkerCosts
from benchmarks.capacity.event_loop import EventLoop
from model.sequence import Hypothesis
from service.items.result import Done
from service.items.translation import TranslationItem
from service.workers.messages import Abort, Compute, Report, ToWorker
from service.workers.worker import HOLD_ROWS, HOLD_TOKENS

RESULT = [Hypothesis([1, 0])]
"""The value of every result; the simulation does not read it."""


@dataclass(slots=True)
class SizedItem(TranslationItem):
    """A sentence whose number of target tokens is known."""

    target_tokens: int = 0


class SimulatedWorker:
    """Runs the loop of a worker that translates: take messages, encode, decode, report."""

    def __init__(
        self,
        name: str,
        loop: EventLoop,
        costs: WorkerCosts,
        report: Callable[["SimulatedWorker", Report], None],
        slowness: Callable[[], float],
    ) -> None:
        self.name = name
        self.loop = loop
        self.costs = costs
        self.report = report
        self.slowness = slowness
        self.num_computed = 0
        self.left: dict[int, int] = {}  # tokens to decode, by id of the item
        self._waiting: dict[int, SizedItem] = {}
        self._held: list[Done] = []
        self._held_tokens = 0
        self._is_busy = False

    def send(self, message: ToWorker) -> None:
        self.loop.after(partial(self._take, message))

    def _take(self, message: ToWorker) -> None:
        if isinstance(message, Compute):
            self.num_computed += len(message.items)
            for item in message.items:
                assert isinstance(item, SizedItem)
                self._waiting[item.id] = item
        else:
            assert isinstance(message, Abort)
            for number in message.ids:
                self._waiting.pop(number, None)
                self.left.pop(number, None)
        if not self._is_busy:
            self._step()

    def _step(self) -> None:
        """Begins a step, unless the worker has nothing to compute."""
        costs, seconds = self.costs, 0.0
        if self._waiting:
            tokens = sum(item.num_tokens for item in self._waiting.values())
            seconds += costs.encode_seconds + costs.source_seconds * tokens
            for item in self._waiting.values():
                self.left[item.id] = item.target_tokens
            self._waiting = {}
        self._is_busy = bool(self.left)
        if not self.left:
            return
        steps = costs.tokens_per_call
        if len(self.left) < costs.small_rows:
            few = costs.small_row_tokens // len(self.left)
            steps = min(steps, max(few, costs.small_tokens))
        rows = [min(left, steps) for left in self.left.values()]
        seconds += costs.step_seconds * max(rows) + costs.row_seconds * sum(rows)
        decoded = dict(zip(self.left, rows, strict=True))
        end = partial(self._end, decoded, steps)
        self.loop.processors.run(seconds * self.slowness(), end)

    def _end(self, decoded: dict[int, int], steps: int) -> None:
        for number, tokens in decoded.items():
            if number in self.left:  # not aborted meanwhile
                self.left[number] -= tokens
                if self.left[number] <= 0:
                    del self.left[number]
                    self._held.append(Done(number, RESULT))
        self._held_tokens += steps if self._held else 0
        if self._held and (len(self.left) < HOLD_ROWS or self._held_tokens > HOLD_TOKENS):
            report, self._held, self._held_tokens = Report(done=self._held), [], 0
            self.loop.receive(partial(self.report, self, report))
        self._step()
