"""Assigns items to workers; handles queues, deadlines, cancellation and results.

The scheduler runs in the event loop of the server and is not thread-safe. Every item is settled
exactly once: by a result, by an error, or by the end of its request. The scheduler has no code for
particular task kinds. Instead, the task table (`service.tasks.table`) names a policy for each kind.
The policy counts and assigns the kind's work.
"""

import asyncio
import itertools
import logging
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from service.errors import (
    DeadlineExceededError,
    InternalError,
    NotFoundError,
    UnavailableError,
    fault,
    loading,
    stopping,
    too_late,
)
from service.items import Failed, Result, ResultStream, WorkItem
from service.metrics.definitions import Metrics
from service.scheduling.admission import Admission, late
from service.scheduling.equal_sentences import SentenceSharing
from service.scheduling.forecast import Prediction, is_relevant
from service.scheduling.lanes import LANES, Lane, Queue
from service.scheduling.policies import Policy, TaskKind
from service.scheduling.worker_state import Link, WorkerState
from service.workers.messages import Abort, Compute, Report

logger = logging.getLogger("regard.scheduler")

NEEDED_SHARE = 0.5
"""A waiting item is given up if the time until its deadline is less than this share of its expected
computing time. The share is small, because a single item may be faster than expected."""

MAX_ATTEMPTS = 2
"""Largest number of dispatches of an item. If its worker dies, the item is dispatched again."""


SHARED_STATE = (
    *("attempts", "bucket", "cost", "id", "load", "occupancy", "queue", "rows", "tokens", "work"),
)
"""State that equal items have in common if one takes the place of the other."""


class Submission(ResultStream):
    """A stream of results. If it ends early, or after some seconds, it withdraws all its items."""

    def __init__(
        self,
        items: Sequence[WorkItem],
        seconds: float,
        withdraw: Callable[[Sequence[WorkItem]], None],
    ) -> None:
        super().__init__(len(items))
        self.items = items
        self.withdraw = withdraw
        self.timer = asyncio.get_running_loop().call_later(max(0.0, seconds), self._expire)
        self.prediction: Prediction | None = None  # predicted time of all items
        # Called when the stream ends, with its error if there is one; simulations set it.
        self.on_end: Callable[[Exception | None], None] | None = None

    def close(self) -> None:
        if self.is_closed:
            return
        super().close()
        self.timer.cancel()
        # Items and their submission refer to each other. This cycle is broken here, so that Python
        # frees these objects without garbage collection.
        items, self.items = self.items, ()
        is_late = isinstance(self.error, DeadlineExceededError)
        if self.prediction is not None and (is_late or not self.left):
            self.prediction.end(is_late)
        if self.left:
            self.withdraw(items)
        if self.on_end is not None:
            self.on_end(self.error)

    def _expire(self) -> None:
        self.fail(too_late(self.total - self.left, self.total))


CallSoon = Callable[[Callable[[], None]], object]


def call_soon(function: Callable[[], None]) -> None:
    asyncio.get_running_loop().call_soon(function)


class Scheduler:
    """Gives waiting items to workers as capacity becomes free.

    A worker may hold `rows_ahead` rows beyond a model's batch. Their sentences wait in the worker
    until rows of the batch are free. An interactive sentence that arrives later waits behind them.
    """

    def __init__(
        self,
        kinds: Mapping[str, TaskKind],
        admission: Admission,
        metrics: Metrics,
        call_soon: CallSoon = call_soon,
        rows_ahead: int = 0,
        sharing: SentenceSharing | None = None,
    ) -> None:
        self.kinds = kinds
        self.admission = admission
        self.metrics = metrics
        self.call_soon = call_soon
        self.rows_ahead = rows_ahead
        self.sharing = sharing
        self.queues: dict[str, dict[str, Queue]] = {kind: {} for kind in kinds}  # by model
        # For each kind, the models whose queues may have waiting items.
        self.filled: dict[str, dict[str, None]] = {kind: {} for kind in kinds}
        self.workers: dict[Link, WorkerState] = {}
        self.ids = itertools.count(1)
        self.is_closed = False
        self.will_dispatch = False

    def add_model(self, model: str, kinds: Iterable[str]) -> None:
        for kind in kinds:
            policy = self.kinds[kind].policy
            queue = self.queues[kind][model] = Queue(policy.num_buckets)
            for name, lanes in zip(LANES, (queue.interactive, queue.bulk), strict=True):
                self._watch(lanes, kind, model, name)
            if policy.counts_rows:
                slots = self.metrics.decode_slots
                slots.labels(model, "used").set_function(partial(self.used_rows, kind, model))
                slots.labels(model, "free").set_function(partial(self.free_rows, kind, model))

    def _watch(self, lanes: Sequence[Lane], *labels: str) -> None:
        depth, tokens = self.metrics.queue_depth, self.metrics.queue_tokens
        depth.labels(*labels).set_function(lambda: sum(map(len, lanes)))
        tokens.labels(*labels).set_function(lambda: sum(each.tokens for each in lanes))
        age = self.metrics.queue_oldest_age.labels(*labels)
        age.set_function(lambda: max(each.oldest_age for each in lanes))

    def last_use(self, model: str) -> float | None:
        """Returns when a model's newest item arrived, by perf_counter; None if it has work."""
        queues = [each[model] for each in self.queues.values() if model in each]
        if any(queue or queue.occupancy for queue in queues):
            return None
        return max(lane.last_arrival for queue in queues for lane in queue.lanes)

    def remove_model(self, model: str) -> None:
        left: list[WorkItem] = []
        for queues in self.queues.values():
            queue = queues.pop(model, None)
            if queue is not None:
                left += queue.items()
        for worker in self.workers.values():
            if held := worker.unload(model):
                worker.link.send(Abort([item.id for item in held]))
                left += held
        if self.sharing is not None:
            left += self.sharing.forget(model)
        for item in left:
            item.receiver.fail(unloaded(model))

    def submit(
        self, items: Sequence[WorkItem], deadline: float, is_first: bool = True, client: str = ""
    ) -> Submission:
        """Queues items; the submission yields the result of each item as the item finishes.

        Args:
            deadline: Time by time.perf_counter at which the unfinished items fail.
            is_first: Whether this is the first submission of the request. A later one is not
                refused for its expected wait, because the work of the earlier ones would be lost.
        """
        now = time.perf_counter()
        seconds = deadline - now
        new: Sequence[WorkItem] = items
        known: Sequence[WorkItem] = ()
        for item in items:
            item.client, item.deadline, item.created = client, deadline, now
            item.queue = item.shared = None
        if self.sharing is not None:
            new, known = self.sharing.divide(items)
        prediction = self._measure(new, seconds, len(items), is_first)
        submission = Submission(items, seconds, self._withdraw)
        submission.prediction = prediction
        for index, item in enumerate(items):
            item.receiver, item.index = submission, index
        for item in new:
            self._add(item)
        if self.sharing is not None:
            self.sharing.begin(new, known)
        self._dispatch_soon()
        return submission

    def _measure(
        self, items: Sequence[WorkItem], seconds: float, total: int, is_first: bool
    ) -> Prediction | None:
        """Finds the queues of the items to compute, and counts their work.

        Returns the prediction of the time of `total` items, if it can be compared with the real
        time.
        """
        if self.is_closed and items:
            raise stopping()
        if not self.workers and items:
            raise loading()
        groups: dict[tuple[str, str], list[WorkItem]] = defaultdict(list)
        for item in items:
            queue = self.queues[item.kind].get(item.model)
            if queue is None:
                raise unloaded(item.model)
            item.id = next(self.ids)
            item.queue, item.attempts, item.dispatched, item.occupancy = queue, 0, 0.0, 0
            tokens, rows = item.tokens, item.rows = item.num_tokens, item.num_rows
            item.work = tokens * rows
            self.kinds[item.kind].policy.measure(item)
            groups[item.kind, item.model].append(item)
        prediction = None
        if is_first:
            for (kind, model), group in groups.items():
                prediction = self._check_wait(kind, model, group, seconds)
            if len(groups) > 1 or len(items) < total:
                prediction = None  # the time of other work would distort the margin
        return prediction

    def _check_wait(
        self, kind: str, model: str, items: Sequence[WorkItem], seconds: float
    ) -> Prediction | None:
        """Refuses items that would probably not be done in `seconds`.

        If no other item of the kind and model waits or runs, the items are admitted. They are also
        admitted if too few items have finished for a prediction, or if the predicted time is a
        small share of `seconds`. A prediction from a measured rate is returned, to be compared with
        the real time. Predictions from an assumed rate would distort the margin.
        """
        policy, queue = self.kinds[kind].policy, self.queues[kind][model]
        if not queue.occupancy and not queue:
            return None
        work, occupancy = policy.forecast(model, queue, self.workers.values(), items)
        expected = queue.pace.seconds_for(work, occupancy)
        if not expected or not is_relevant(expected, seconds):
            return None
        needed = expected + queue.margin.seconds_for(expected)
        if needed > seconds:
            raise late(needed, seconds)
        is_known = queue.pace.is_known(occupancy)
        return Prediction(queue.margin, expected, seconds) if is_known else None

    def _add(self, item: WorkItem, is_first: bool = False) -> None:
        item.queue.lane(item).add(item, is_first)
        self.filled[item.kind][item.model] = None

    def _dispatch_soon(self) -> None:
        if not self.will_dispatch:
            self.will_dispatch = True
            self.call_soon(self._dispatch)

    def _dispatch(self) -> None:
        self.will_dispatch = False
        for kind, filled in self.filled.items():
            if not filled:
                continue
            queues, policy = self.queues[kind], self.kinds[kind].policy
            models = [*filled]
            if policy.shares_models and len(models) > 1:
                models = [model for model in models if model in queues]
                models.sort(key=lambda model: queues[model].oldest_age, reverse=True)
            for model in models:
                queue = queues.get(model)
                if queue is not None:
                    self._fill(kind, model, queue, policy)
                if not queue:
                    filled.pop(model, None)

    def _fill(self, kind: str, model: str, queue: Queue, policy: Policy) -> None:
        self._drop_late(queue, policy)
        given = policy.assign(kind, model, queue, self.workers.values())
        for worker, items in given:
            worker.link.send(Compute(items))
        for _, items in given:
            for item in items:
                item.occupancy = queue.occupancy

    def _drop_late(self, queue: Queue, policy: Policy) -> None:
        """Fails the first items of each client in each lane if they have too little time left."""
        now, pace, occupancy = time.perf_counter(), queue.pace, queue.occupancy
        while True:
            dropped = []
            for lane in queue.lanes:
                for client in lane.clients.values():
                    for item in client.values():
                        work = policy.work_until_end(item.tokens, max(occupancy, 1))
                        needed = NEEDED_SHARE * pace.seconds_for(work, occupancy)
                        if not needed or item.deadline - now >= needed:
                            break
                        dropped.append((lane, item))
            if not dropped:
                return
            for lane, item in dropped:
                lane.remove(item)
            for _, item in dropped:
                self.metrics.cancelled.labels(item.kind, item.model, "queued").inc()
                # This also cancels the request's other items, so other late items may become first.
                item.receiver.fail(given_up(item.deadline - now))

    def _withdraw(self, items: Sequence[WorkItem]) -> None:
        """Removes the unsettled items of a submission that has ended early.

        If an equal item waits for such an item, it takes its place in the lane or in the worker.
        """
        aborted: dict[WorkerState, list[int]] = defaultdict(list)
        for item in items:
            heir = None if self.sharing is None else self.sharing.withdraw(item)
            if item.queue is None:  # it waited for an equal item
                continue
            if heir is not None:
                take_place(heir, item)
            holders = (each for each in self.workers.values() if each.held.get(item.id) is item)
            if (worker := next(holders, None)) is None:
                is_served = self.queues[item.kind].get(item.model) is item.queue
                if is_served and item.queue.lane(item).remove(item):
                    self.metrics.cancelled.labels(item.kind, item.model, "queued").inc()
                if heir is not None:
                    self._add(heir)
            elif heir is not None:
                worker.held[item.id] = heir
            else:
                worker.take_back(item)
                aborted[worker].append(item.id)
                self.metrics.cancelled.labels(item.kind, item.model, "running").inc()
        for worker, ids in aborted.items():
            worker.link.send(Abort(ids))
        self._dispatch_soon()  # not `_dispatch`: `_drop_late` may have called this method

    def worker_ready(self, link: Link) -> None:
        """Accepts a worker, which gets items of a model after `worker_loaded`."""
        self.workers[link] = WorkerState(link, rows_ahead=self.rows_ahead)

    def worker_loaded(
        self, link: Link, model: str, max_rows: int = 0, is_on_gpu: bool = False
    ) -> None:
        self.workers[link].load(model, max_rows, is_on_gpu)
        self._dispatch()

    def worker_lost(self, link: Link) -> None:
        """Removes a dead worker, and puts its items first in their lanes, to be tried again."""
        worker = self.workers.pop(link, None)
        if worker is None:
            return
        for item in reversed(worker.take_back_all()):
            # The receiver is closed if this loop has failed another item of the same submission.
            if item.receiver.is_closed:
                continue
            if item.attempts < MAX_ATTEMPTS:
                self._add(item, is_first=True)
            else:
                item.receiver.fail(
                    UnavailableError(
                        "two workers died while they computed this request; try again", 1
                    )
                )
        self._dispatch()

    def device_lost(self, link: Link) -> None:
        """Removes a worker whose device failed, and fails its items.

        They are not tried again, because one of them may have caused the failure. If no worker is
        left, the waiting items fail too.
        """
        worker = self.workers.pop(link, None)
        items = worker.take_back_all() if worker is not None else []
        if not self.workers:
            items += self._waiting()
        for item in items:
            item.receiver.fail(UnavailableError("the device failed; try again", 5))

    def has_work(self, link: Link) -> bool:
        worker = self.workers.get(link)
        return worker is not None and bool(worker.held)

    def report(self, link: Link, report: Report) -> None:
        """Settles the items that a worker has finished, and counts its work.

        Replies take 0.2 ms each, so the item with the earliest deadline is settled first.
        """
        worker = self.workers[link]
        lengths: dict[tuple[str, str], list[tuple[int, ...]]] = defaultdict(list)
        now = time.perf_counter()
        held = worker.held
        finished = [(held[each.id], each.value) for each in report.done if each.id in held]
        if len(finished) > 1:
            finished.sort(key=lambda pair: pair[0].deadline)
        for item, value in finished:
            if item.id not in held:  # withdrawn when another item was settled
                continue
            item = held[item.id]  # an equal item, if it has taken the place of a withdrawn one
            try:
                self._settle(worker, item, value, now)
                if (measure := self.kinds[item.kind].lengths) is not None:
                    lengths[item.kind, item.model].append(measure(item, value))
            except Exception as error:
                logger.error("a result of %s was not handled: %s", link.name, fault(error))
                item.receiver.fail(InternalError("a result was lost; see the server's log"))
        for (kind, model), found in lengths.items():
            self.metrics.observe_lengths(kind, model, found)
            self.admission.throughput.add(sum([each[0] for each in found]))
        if report.failed:
            self._fail(worker, report.failed)
        self.metrics.observe_report(link.name, report)
        if any(self.filled.values()):
            self._dispatch()

    def _settle(self, worker: WorkerState, item: WorkItem, value: Any, now: float) -> None:
        queue, policy = item.queue, self.kinds[item.kind].policy
        seconds, occupancy = now - item.dispatched, float(item.occupancy)
        try:
            if policy.counts_rows:  # the queue's occupancy still counts the item
                occupancy = (occupancy + queue.occupancy) / 2
            work = policy.work_until_end(item.tokens, occupancy)
            queue.pace.add(work, seconds, occupancy, now)
        finally:
            worker.take_back(item)
        if item.shared is not None and self.sharing is not None:
            self.sharing.finish(item, value)
        result = Result(value, item.dispatched - item.created, seconds)
        item.receiver.add([(item.index, result)])

    def _fail(self, worker: WorkerState, failed: Sequence[Failed]) -> None:
        """Fails the items that a worker has reported as failed.

        They are first taken back together, so that none of them counts as cancelled with another.
        """
        items = [(worker.held[each.id], each) for each in failed if each.id in worker.held]
        for item, _ in items:
            worker.take_back(item)
            item.attempts = 0  # for an equal item, which takes its place
        for item, each in items:
            reason = "the device ran out of memory" if each.is_out_of_memory else each.error
            item.receiver.fail(InternalError(f"a sentence could not be computed: {reason}"))

    def used_rows(self, kind: str, model: str) -> int:
        queue = self.queues[kind].get(model)
        return queue.occupancy if queue is not None else 0

    def free_rows(self, kind: str, model: str) -> int:
        rows = sum(worker.max_rows.get(model, 0) for worker in self.workers.values())
        return max(0, rows - self.used_rows(kind, model))

    def _waiting(self) -> list[WorkItem]:
        queues = [queue for each in self.queues.values() for queue in each.values()]
        groups = [] if self.sharing is None else self.sharing.running.values()
        return [item for group in (*(queue.items() for queue in queues), *groups) for item in group]

    def close(self) -> None:
        self.is_closed = True
        held = [item for worker in self.workers.values() for item in worker.held.values()]
        for item in [*self._waiting(), *held]:
            item.receiver.fail(stopping())


def take_place(heir: WorkItem, item: WorkItem) -> None:
    """Gives an item the state of an equal one, whose place in a lane or a worker it takes."""
    for name in SHARED_STATE:
        setattr(heir, name, getattr(item, name))
    heir.dispatched = max(item.dispatched, heir.created)


def unloaded(model: str) -> NotFoundError:
    return NotFoundError(f"the model {model} has been unloaded", param="model")


def given_up(seconds: float) -> DeadlineExceededError:
    return DeadlineExceededError(
        f"the request waited too long: with {max(seconds, 0.0):.2f} s left, it would be late; "
        "try again later, or allow more time",
        1,
    )
