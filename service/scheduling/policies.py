"""Scheduling policies: each counts the work of a task kind and assigns this work to workers.

A policy has no code for particular task kinds, and uses only the interface `WorkItem` of the items.
The task table names a policy for each kind. A row is a place in the batch of a model. Work is
counted in row-tokens: the number of an item's tokens times the number of its rows.
"""

import time
from collections.abc import Iterable, Sequence
from typing import Protocol

from service.items.base import WorkItem
from service.items.length_buckets import NUM_BUCKETS, bucket_of
from service.scheduling.job import Job
from service.scheduling.lanes import Queue
from service.scheduling.worker_state import WorkerState
from service.workers.batch_sizes import capacity_tokens

KEPT_SHARE = 1 / 8
"""Share of a batch's rows that bulk sentences leave free for interactive sentences. Without free
rows, an interactive sentence would wait until a bulk sentence has ended. There are two exceptions
to this rule and to the limit that BULK_ROWS sets. First, while sentences wait in both lanes, bulk
sentences get one of every BULK_SHARE rows (`service/scheduling/lanes.py`). Second, a worker without
sentences takes the next bulk sentence, even if this sentence needs more rows than allowed."""

INTERACTIVE_SECONDS = 1.0
BULK_ROWS = 1
"""For INTERACTIVE_SECONDS after an interactive sentence has arrived, the rows of bulk sentences are
limited. The limit is BULK_ROWS times the rows of interactive sentences, or KEPT_SHARE of all rows
if this is more. Each row makes a decode step longer, so bulk rows delay interactive sentences."""

MAX_SLOTS = 4
"""Largest number of items of one kind that SlotPolicy lets a worker hold. A worker can compute
several items together. Further items wait in the queue, so that other workers can take them."""

Assignment = tuple[WorkerState, list[Job]]


class Policy(Protocol):
    """Counts the work of one task kind and assigns it to workers.

    Attributes:
        num_buckets: Number of length buckets of each queue.
        shares_models: Whether the models of a worker share one capacity. If so, the model whose
            oldest job has waited longest is served first.
        counts_rows: Whether the policy counts capacity in rows of a model's batch.
    """

    num_buckets: int
    shares_models: bool
    counts_rows: bool

    def bucket(self, item: WorkItem) -> int:
        """Returns the length bucket in which an item waits."""

    def cost(self, item: WorkItem) -> int:
        """Returns how much of a worker's capacity an item takes."""

    def occupancy(self, kind: str, model: str, workers: Iterable[WorkerState]) -> int:
        """Returns the rows in use by the jobs of a kind and model, summed over all workers.

        A policy that does not count rows returns the number of tokens of these jobs instead.
        """

    def work_until_end(self, tokens: int, occupancy: float) -> float:
        """Returns the work that workers do from the dispatch of an item to its end.

        Args:
            tokens: Number of tokens of the item.
            occupancy: Rows in use (or tokens held) during this time, the item's own included.
        """

    def forecast(
        self,
        kind: str,
        model: str,
        queue: Queue,
        workers: Iterable[WorkerState],
        jobs: Sequence[Job],
    ) -> tuple[float, float]:
        """Predicts the work that workers do until new jobs have ended.

        Args:
            kind: Name of the task kind.
            model: Served name of the model.
            queue: Waiting jobs of this kind and model; the new jobs are not in it yet.
            workers: All workers.
            jobs: New jobs of one submission, at least one.

        Returns:
            The work in row-tokens, and the occupancy during this work.
        """

    def assign(
        self, kind: str, model: str, queue: Queue, workers: Sequence[WorkerState]
    ) -> Iterable[Assignment]:
        """Takes as many jobs from a queue as workers have capacity for, and assigns these jobs.

        Args:
            kind: Name of the task kind.
            model: Served name of the model.
            queue: Waiting jobs of this kind and model.
            workers: All workers.

        Yields:
            Each worker that received jobs, with these jobs.
        """


class RowPolicy:
    """Counts rows of a model's batch; jobs of similar length go to one worker together."""

    num_buckets = 1
    shares_models = False
    counts_rows = True

    def bucket(self, item: WorkItem) -> int:
        """Returns 0, because texts of all lengths wait together."""
        return 0

    def cost(self, item: WorkItem) -> int:
        """Returns the number of rows."""
        return item.num_rows

    def occupancy(self, kind: str, model: str, workers: Iterable[WorkerState]) -> int:
        """Returns the number of rows in use."""
        return sum([worker.used[kind, model, 0] for worker in workers])

    def work_until_end(self, tokens: int, occupancy: float) -> float:
        """Returns the work of all rows in use until one of them has computed `tokens` tokens."""
        return tokens * occupancy

    def forecast(
        self,
        kind: str,
        model: str,
        queue: Queue,
        workers: Iterable[WorkerState],
        jobs: Sequence[Job],
    ) -> tuple[float, float]:
        """Predicts the work until new jobs have ended, and the rows in use meanwhile.

        The new jobs wait until the jobs before them have rows. Then the new jobs share the batch
        with all rows in use. If there are too few rows for all new jobs, some new jobs wait until
        other new jobs have freed their rows.
        """
        max_rows = sum([worker.max_rows.get(model, 0) for worker in workers])
        rows = sum([job.rows for job in jobs])
        before = self.occupancy(kind, model, workers) + queue.rows
        occupancy = min(max_rows, before + rows)
        waiting = min(1.0, max(0.0, before + rows - max_rows) / rows)
        own = waiting * sum([job.work for job in jobs]) if len(jobs) > 1 else 0.0
        ahead = queue.work_before(jobs) if queue else 0.0
        longest = max([job.tokens for job in jobs])
        return ahead + own + self.work_until_end(longest, occupancy), occupancy

    def assign(
        self, kind: str, model: str, queue: Queue, workers: Sequence[WorkerState]
    ) -> Iterable[Assignment]:
        """Gives jobs first to the workers with the fewest used rows, to spread the rows evenly."""
        (lanes,) = queue.buckets
        if not lanes.rows:
            return
        key = (kind, model, 0)
        arrival = lanes.interactive.last_arrival
        has_interactive = time.perf_counter() - arrival < INTERACTIVE_SECONDS
        free = {worker: worker.free_rows(kind, model) for worker in workers}
        ordered = sorted((w for w in workers if free[w] > 0), key=lambda worker: worker.used[key])
        used = [worker.used[key] for worker in ordered]
        for position, worker in enumerate(ordered):
            if not lanes.rows:
                return
            # The worker's share of the waiting rows is at least the rows of each lane's next job.
            # With a smaller share, a job of several rows would wait although enough rows are free.
            share = max(level(used[position:], lanes.rows) - used[position], lanes.next_rows)
            max_rows = worker.max_rows[model]
            spare = free[worker] - int(max_rows * KEPT_SHARE)
            if has_interactive:
                bulk = worker.bulk_rows[kind, model]
                allowed = max(int(max_rows * KEPT_SHARE), BULK_ROWS * (worker.used[key] - bulk))
                spare = min(spare, max(0, allowed - bulk))
            if not worker.used[key]:
                spare = max(spare, lanes.bulk.next_rows)
            jobs = lanes.take(min(share, free[worker]), spare)
            if jobs:
                worker.give(jobs)
                yield worker, jobs


def level(used: Iterable[int], rows: int) -> int:
    """Returns how many rows each worker uses if `rows` more rows are spread as evenly as possible.

    A worker that already uses more rows than this number gets none. The number is rounded up.

    Args:
        used: Number of rows that each worker uses, ascending.
        rows: Number of rows to give.
    """
    total, found = rows, 0
    for count, number in enumerate(used, start=1):
        if count > 1 and number >= found:
            break
        total += number
        found = -(-total // count)
    return found


class SerialForecast:
    """Predicts work as if the workers computed one item after the other."""

    def occupancy(self, kind: str, model: str, workers: Iterable[WorkerState]) -> int:
        """Returns the number of tokens that the workers hold."""
        return sum([worker.tokens[kind, model] for worker in workers])

    def work_until_end(self, tokens: int, occupancy: float) -> float:
        """Returns the number of tokens that the workers hold, the item's own included."""
        return occupancy

    def forecast(
        self,
        kind: str,
        model: str,
        queue: Queue,
        workers: Iterable[WorkerState],
        jobs: Sequence[Job],
    ) -> tuple[float, float]:
        """Predicts the tokens to compute until new jobs end, and the tokens held until then."""
        held = self.occupancy(kind, model, workers)
        ahead = queue.work_before(jobs) if queue else 0.0
        own = sum([job.work for job in jobs])
        return ahead + held + own, held + own


class TokenPolicy(SerialForecast):
    """Counts the tokens of each length bucket, so that short texts do not wait behind long texts.

    Args:
        foreground: Name of a task kind. Among workers with equally few tokens, the worker with the
            least work of this kind is chosen.
    """

    num_buckets = NUM_BUCKETS
    shares_models = False
    counts_rows = False

    def __init__(self, foreground: str) -> None:
        self.foreground = foreground

    def bucket(self, item: WorkItem) -> int:
        """Returns the length bucket of the text."""
        return bucket_of(item.num_tokens)

    def cost(self, item: WorkItem) -> int:
        """Returns the number of tokens."""
        return item.num_tokens

    def assign(
        self, kind: str, model: str, queue: Queue, workers: Sequence[WorkerState]
    ) -> Iterable[Assignment]:
        """Gives each job to the worker with the fewest tokens to compute before the job.

        These are the tokens in the job's length bucket and in the buckets of shorter texts. While
        a worker has free capacity in a bucket, it takes one more text of this bucket. The text may
        be longer than the free capacity.
        """
        loaded = [worker for worker in workers if model not in worker.missing]
        given: dict[WorkerState, list[Job]] = {}

        def load_before(worker: WorkerState, bucket: int) -> tuple[int, int]:
            used = sum([worker.used[kind, model, each] for each in range(bucket + 1)])
            return used, worker.total_used(self.foreground)

        for bucket, lanes in enumerate(queue.buckets):
            while len(lanes):
                open_ = [
                    worker
                    for worker in loaded
                    if worker.used[kind, model, bucket]
                    < capacity_tokens(model in worker.gpu_models)
                ]
                if not open_:
                    break
                worker = open_[0]
                if len(open_) > 1:
                    worker = min(open_, key=lambda worker: load_before(worker, bucket))
                jobs = lanes.take(1)
                worker.give(jobs)
                given.setdefault(worker, []).extend(jobs)
        yield from given.items()


class SlotPolicy(SerialForecast):
    """Counts items: each item takes one slot of a worker, and all models share the worker's slots.

    Args:
        foreground: Name of a task kind. Among workers with equally few jobs, the worker with the
            least work of this kind is chosen.
    """

    num_buckets = 1
    shares_models = True
    counts_rows = False

    def __init__(self, foreground: str) -> None:
        self.foreground = foreground

    def bucket(self, item: WorkItem) -> int:
        """Returns 0, because all items wait together."""
        return 0

    def cost(self, item: WorkItem) -> int:
        """Returns 1, because an item takes one slot."""
        return 1

    def assign(
        self, kind: str, model: str, queue: Queue, workers: Sequence[WorkerState]
    ) -> Iterable[Assignment]:
        """Gives one job after the other to the worker that holds the fewest jobs of the kind."""
        loaded = [worker for worker in workers if model not in worker.missing]
        (lanes,) = queue.buckets
        while len(lanes):
            worker = min(
                loaded,
                key=lambda each: (each.total_used(kind), each.total_used(self.foreground)),
                default=None,
            )
            if worker is None or worker.total_used(kind) >= MAX_SLOTS:
                return
            jobs = lanes.take(1)
            worker.give(jobs)
            yield worker, jobs
