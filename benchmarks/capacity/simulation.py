"""One simulated machine: the real admission and scheduler in front of simulated workers.

A simulated worker uses the CPU time of a real worker, but runs no model.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

from benchmarks.capacity.costs import Costs, WorkerCosts
from benchmarks.capacity.virtual_time import Clock, EventLoop, Processors
from model.sequence import DecodingOptions, Hypothesis
from service.core import CoreLease
from service.errors import DeadlineExceededError, ServiceError
from service.http_server.loop_load import LoopLoad
from service.items import TRANSLATE, Done, TranslationItem
from service.metrics.definitions import Metrics
from service.scheduling.admission import Admission
from service.scheduling.scheduler import Scheduler, Submission
from service.tasks.table import TASKS, task_series
from service.workers.messages import Abort, Compute, Report, ToWorker

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
        end = partial(self._end, decoded)
        self.loop.processors.run(seconds * self.slowness(), end)

    def _end(self, decoded: dict[int, int]) -> None:
        done = []
        for number, tokens in decoded.items():
            if number in self.left:  # not aborted meanwhile
                self.left[number] -= tokens
                if self.left[number] <= 0:
                    del self.left[number]
                    done.append(Done(number, RESULT))
        if done:
            self.loop.receive(partial(self.report, self, Report(done=done)))
        self._step()


MODEL = "en-pt"
CLIENT = "client"
"""All requests have one client address, as if they came through a proxy."""

MAX_REQUESTS, MAX_TOKENS = 1024, 131072
"""Defaults of REGARD_MAX_PENDING_REQUESTS and REGARD_MAX_PENDING_TOKENS."""

TICK_SECONDS = 0.001
"""The clock of uvloop, with which the load generator waits, advances in whole milliseconds."""


class Outcome(NamedTuple):
    """The end of one request, real or simulated."""

    sent: float  # time of sending, in seconds
    name: str  # `ok`, `late`, `refused`, or the name of another failure
    seconds: float  # time until the reply


@dataclass(slots=True, eq=False)
class Request:
    sent: float  # time at which the client sends it
    sentences: Sequence[tuple[int, int]]  # source and target tokens of its sentences
    deadline_seconds: float  # time limit that the client sets
    outcome: str = ""  # `ok`, `late` or `refused`; "" until the reply
    seconds: float = 0.0  # time from sending to the reply
    on_end: Callable[["Request"], None] | None = None  # called with the request when it has a reply


class Machine:
    """A server with its workers, on the cores of one machine."""

    def __init__(
        self,
        clock: Clock,
        costs: Costs,
        disturbance: Callable[[], float] = lambda: 1.0,
        max_requests: int = MAX_REQUESTS,
        max_tokens: int = MAX_TOKENS,
    ) -> None:
        self.clock = clock
        self.costs = costs
        self.in_progress = 0
        self.processors = Processors(clock, costs.num_cores or math.inf)
        self.loop = EventLoop(self.processors)
        self.load = LoopLoad(clock.perf_counter, lambda: self.loop.used_seconds)
        metrics = Metrics(series=task_series())
        metrics.add_model(MODEL, (TRANSLATE,))
        admission = Admission(max_requests, max_tokens)
        self.scheduler = Scheduler(TASKS, admission, metrics, self.loop.call_soon)
        self.scheduler.add_model(MODEL, (TRANSLATE,))
        self.admission = admission
        names = [f"worker-{index}" for index in range(costs.num_workers)]
        self.workers = [
            SimulatedWorker(name, self.loop, costs.worker, self._report, disturbance)
            for name in names
        ]
        for worker in self.workers:
            self.scheduler.worker_ready(worker)
            self.scheduler.worker_loaded(worker, MODEL, costs.worker.max_rows)

    def send(self, request: Request) -> None:
        self.in_progress += 1
        if self.costs.client_seconds:
            self.processors.run(self.costs.client_seconds, lambda: None)
        self.loop.receive(partial(self._read, request))

    def _read(self, request: Request) -> None:
        if self.load.admits(CLIENT):
            self.loop.call_soon(self._handle, request, self.load.turn_began)
        else:
            self.loop.charge(self.costs.server.early_refusal_seconds)
            self._end(request, "refused")

    def _handle(self, request: Request, arrived: float) -> None:
        """Admits a request and submits its sentences."""
        items = [
            SizedItem(MODEL, [1] * source, DecodingOptions(), target_tokens=target)
            for source, target in request.sentences
        ]
        deadline = arrived + request.deadline_seconds
        lease: CoreLease | None = None
        try:
            tokens = sum(item.num_tokens for item in items)
            lease = CoreLease(self.admission, self.scheduler, tokens, CLIENT)
            submission = lease.submit(items, deadline)
        except ServiceError:
            self.loop.charge(self.costs.server.refusal_seconds)
            self.load.add_refusal(CLIENT)
            if lease is not None:
                lease.release()
            self._end(request, "refused")
            return
        self.loop.charge(self.costs.server.request_seconds / 2)
        assert isinstance(submission, Submission)
        submission.on_end = partial(self._reply_soon, request, lease)

    def _reply_soon(self, request: Request, lease: CoreLease, error: Exception | None) -> None:
        name = "late" if isinstance(error, DeadlineExceededError) else "failed"
        self.loop.call_soon(self._reply, request, lease, name if error else "ok")

    def _reply(self, request: Request, lease: CoreLease, outcome: str) -> None:
        self.loop.charge(self.costs.server.request_seconds / 2)
        lease.release()
        self._end(request, outcome)

    def _report(self, worker: SimulatedWorker, report: Report) -> None:
        self.loop.charge(self.costs.server.message_seconds)
        self.scheduler.report(worker, report)

    def _end(self, request: Request, outcome: str) -> None:
        self.loop.after(partial(self._receive_reply, request, outcome))

    def _receive_reply(self, request: Request, outcome: str) -> None:
        self.in_progress -= 1
        now = self.clock.now
        if self.costs.client_seconds:
            now = math.ceil(now / TICK_SECONDS) * TICK_SECONDS
        request.outcome, request.seconds = outcome, now - request.sent
        if request.on_end is not None:
            request.on_end(request)
