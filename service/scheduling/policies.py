"""Scheduling policies: each counts the work of a task kind and assigns this work to workers.

The task table (`service.tasks.table`) names a policy for each kind. Work is counted in row-tokens:
the number of an item's tokens times the number of rows that it takes in a model's batch.
"""

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from service.items import CAPACITY_TOKENS, NUM_BUCKETS, WorkItem, bucket_of
from service.metrics.definitions import TaskSeries
from service.scheduling.lanes import Queue
from service.scheduling.worker_state import WorkerState
from service.settings import Settings

KEPT_SHARE = 1 / 8
"""Share of a batch's rows that bulk sentences leave free, so that interactive sentences need not
wait for them. There are two exceptions to this rule and to BULK_ROWS. While sentences wait in both
lanes, bulk sentences get one of every BULK_SHARE rows. A worker without sentences takes any next
bulk sentence."""

INTERACTIVE_SECONDS = 1.0
BULK_ROWS = 1
"""For INTERACTIVE_SECONDS after an interactive sentence has arrived, bulk sentences take at most
BULK_ROWS times the rows of interactive sentences, or KEPT_SHARE of all rows. Each row makes a
decode step longer."""

MAX_SLOTS = 4
"""Largest number of items of one kind that SlotPolicy lets a worker hold. A worker can compute
several items together. Further items wait in the queue, so that other workers can take them."""

Assignment = tuple[WorkerState, list[WorkItem]]


class RowPolicy:
    """Counts rows of a model's batch; items of similar length go to one worker together."""

    num_buckets = 1  # length buckets of each queue
    # Whether the models of a worker share one capacity. If so, the model whose oldest item has
    # waited longest is served first.
    shares_models = False
    counts_rows = True  # whether capacity is counted in rows of a model's batch

    def measure(self, item: WorkItem) -> None:
        """Sets `bucket`, `cost` and `load` of an item from its `tokens` and `rows`."""
        item.bucket = 0
        item.cost = item.load = item.rows

    def work_until_end(self, tokens: int, occupancy: float) -> float:
        """Returns the work that workers do from the dispatch of an item to its end.

        `occupancy` counts the rows in use (or tokens held) in this time, with those of the item.
        """
        return tokens * occupancy

    def forecast(
        self, model: str, queue: Queue, workers: Iterable[WorkerState], items: Sequence[WorkItem]
    ) -> tuple[float, float]:
        """Predicts the work of the workers until new items, which are in no queue yet, have ended.

        Returns the work in row-tokens, and the occupancy during this work.

        The new items wait until the items before them have rows. Then they share the batch with all
        rows in use. If there are too few rows for all of them, some wait until others have freed
        their rows.
        """
        (lanes,) = queue.buckets
        max_rows = new_rows = new_work = longest = 0
        for worker in workers:
            max_rows += worker.max_rows.get(model, 0)
        for item in items:
            new_rows += item.rows
            new_work += item.work
            longest = max(longest, item.tokens)
        rows = queue.occupancy + lanes.rows + new_rows
        occupancy = min(max_rows, rows)
        ahead = queue.work_before(items) if queue else 0.0
        if len(items) > 1:
            ahead += min(1.0, max(0.0, rows - max_rows) / new_rows) * new_work
        return ahead + longest * occupancy, occupancy

    def assign(
        self, kind: str, model: str, queue: Queue, workers: Iterable[WorkerState]
    ) -> list[Assignment]:
        """Takes as many items from a queue as workers have capacity for, and assigns these items.

        The workers with the fewest used rows come first, to spread the rows evenly.
        """
        (lanes,) = queue.buckets
        key = (kind, model, 0)
        ordered = []
        for position, worker in enumerate(workers):
            max_rows, used = worker.max_rows.get(model, 0), worker.used[key]
            if max_rows and max_rows + worker.rows_ahead > used:
                ordered.append((used, position, worker))
        ordered.sort()
        interactive, bulk = lanes.interactive, lanes.bulk
        found: list[Assignment] = []
        for position, (used, _, worker) in enumerate(ordered):
            rows = interactive.rows + bulk.rows
            if not rows:
                break
            free = worker.max_rows[model] + worker.rows_ahead - used
            spare = None
            if bulk.rows:
                spare = self._spare(worker, key, free, bulk.next_rows, interactive.last_arrival)
            if interactive.num_items + bulk.num_items > 1:
                # The worker's share of the waiting rows is at least the rows of each lane's next
                # item. With a smaller share, an item of several rows would wait although enough
                # rows are free.
                even = level([used for used, _, _ in ordered[position:]], rows) - used
                rows = max(even, lanes.next_rows)
            items = lanes.take(min(rows, free), spare)
            if items:
                worker.give(items)
                found.append((worker, items))
        return found

    def _spare(
        self,
        worker: WorkerState,
        key: tuple[str, str, int],
        free: int,
        next_rows: int,
        last_interactive: float,
    ) -> int:
        used, bulk = worker.used[key], worker.bulk_rows[key[:2]]
        kept = int(worker.max_rows[key[1]] * KEPT_SHARE)
        spare = free - kept
        if time.perf_counter() - last_interactive < INTERACTIVE_SECONDS:
            allowed = max(kept, BULK_ROWS * (used - bulk))
            spare = min(spare, max(0, allowed - bulk))
        return spare if used else max(spare, next_rows)


def level(used: Iterable[int], rows: int) -> int:
    """Returns how many rows each worker uses if `rows` more rows are spread as evenly as possible.

    `used` has the rows of each worker, ascending. A worker that uses more than the result gets
    none. The result is rounded up.
    """
    total, found = rows, 0
    for count, number in enumerate(used, start=1):
        if count > 1 and number >= found:
            break
        total += number
        found = -(-total // count)
    return found


class ItemPolicy(ABC):
    """Gives one item after the other to the worker with the least work before the item.

    Among workers with equally much work of the own kind, the worker with the least work of the kind
    `foreground` is chosen. Work is predicted as if a worker computed one item after the other.
    """

    num_buckets = 1
    shares_models = False
    counts_rows = False

    def __init__(self, foreground: str) -> None:
        self.foreground = foreground

    @abstractmethod
    def measure(self, item: WorkItem) -> None: ...

    def work_until_end(self, tokens: int, occupancy: float) -> float:
        return occupancy

    def forecast(
        self, model: str, queue: Queue, workers: Iterable[WorkerState], items: Sequence[WorkItem]
    ) -> tuple[float, float]:
        ahead = queue.work_before(items) if queue else 0.0
        held = queue.occupancy + sum([item.work for item in items])
        return ahead + held, held

    @abstractmethod
    def _load(self, worker: WorkerState, kind: str, model: str, bucket: int) -> int:
        """Returns the work of the kind that a worker does before a new item of a bucket."""

    @abstractmethod
    def _has_room(self, worker: WorkerState, kind: str, model: str, bucket: int) -> bool: ...

    def assign(
        self, kind: str, model: str, queue: Queue, workers: Iterable[WorkerState]
    ) -> list[Assignment]:
        loaded = [worker for worker in workers if model in worker.max_rows]
        foreground = {worker: worker.total_used(self.foreground) for worker in loaded}
        given: dict[WorkerState, list[WorkItem]] = {}
        for bucket, lanes in enumerate(queue.buckets):

            def load(worker: WorkerState, bucket: int = bucket) -> tuple[int, int]:
                return self._load(worker, kind, model, bucket), foreground[worker]

            while len(lanes):
                free = [each for each in loaded if self._has_room(each, kind, model, bucket)]
                if not free:
                    break
                worker = min(free, key=load) if len(free) > 1 else free[0]
                items = lanes.take(1)
                worker.give(items)
                given.setdefault(worker, []).extend(items)
        return [*given.items()]


class TokenPolicy(ItemPolicy):
    """Counts the tokens of each length bucket, so that short texts do not wait behind long texts.

    A text waits for the tokens in its bucket and in the buckets of shorter texts. While a worker
    has free capacity in a bucket, it takes one more text of this bucket. The text may be longer
    than the free capacity.
    """

    num_buckets = NUM_BUCKETS

    def measure(self, item: WorkItem) -> None:
        item.bucket = bucket_of(item.tokens)
        item.cost = item.load = item.tokens

    def _load(self, worker: WorkerState, kind: str, model: str, bucket: int) -> int:
        return sum([worker.used[kind, model, each] for each in range(bucket + 1)])

    def _has_room(self, worker: WorkerState, kind: str, model: str, bucket: int) -> bool:
        return worker.used[kind, model, bucket] < CAPACITY_TOKENS[model in worker.gpu_models]


class SlotPolicy(ItemPolicy):
    """Counts items: each item takes one slot of a worker, and all models share the slots."""

    shares_models = True

    def measure(self, item: WorkItem) -> None:
        item.bucket, item.cost, item.load = 0, 1, item.tokens

    def _load(self, worker: WorkerState, kind: str, model: str, bucket: int) -> int:
        return worker.total_used(kind)

    def _has_room(self, worker: WorkerState, kind: str, model: str, bucket: int) -> bool:
        return worker.total_used(kind) < MAX_SLOTS


Policy = RowPolicy | ItemPolicy


@dataclass(frozen=True, slots=True)
class TaskKind:
    """One row of the task table: one kind of work for the workers."""

    item: type[WorkItem]  # `item.kind` is the name of the kind
    policy: Policy
    # Returns the share of a worker's time that the kind gets while other work waits. None means no
    # limit, as for translation.
    share: Callable[[Settings], float | None]
    series: TaskSeries  # names of model calls and token counts in the metrics
    # Takes an item and the value of its result. Returns the number of source tokens and, for a
    # translation, of target tokens. None if the kind has no such counts.
    lengths: Callable[[Any, Any], tuple[int, ...]] | None

    @property
    def name(self) -> str:
        return self.item.kind
