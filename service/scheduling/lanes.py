"""Queues of waiting jobs. A job is a work item that the scheduler has accepted.

A queue has one or more length buckets, which separate short texts from long texts. Each bucket has
two lanes: one for interactive jobs and one for bulk jobs. A row is a place in the batch of a model.
"""

import itertools
import time
from collections import OrderedDict
from collections.abc import Iterator, Sequence

from service.scheduling.job import Job

LANES = ("interactive", "bulk")

LOOK_AHEAD = 4
"""For each free row, jobs of similar length are chosen from this number of the oldest jobs."""

BULK_SHARE = 5
"""While jobs wait in both lanes, the bulk lane gets one of every BULK_SHARE rows."""


class Lane:
    """Jobs in order of arrival; any job may be removed before its turn."""

    def __init__(self) -> None:
        self.jobs: OrderedDict[int, Job] = OrderedDict()
        self.tokens = 0
        self.rows = 0

    def __len__(self) -> int:
        return len(self.jobs)

    @property
    def oldest_age(self) -> float:
        """Seconds that the first job has waited; 0 in an empty lane."""
        if not self.jobs:
            return 0.0
        return time.perf_counter() - next(iter(self.jobs.values())).created

    @property
    def next_rows(self) -> int:
        """Number of rows that the first job takes; 0 in an empty lane."""
        return next(iter(self.jobs.values())).rows if self.jobs else 0

    def add(self, job: Job, is_first: bool = False) -> None:
        """Appends a job, or puts it first again after its worker died."""
        self.jobs[job.id] = job
        self.jobs.move_to_end(job.id, last=not is_first)
        self.tokens += job.tokens
        self.rows += job.rows

    def remove(self, job: Job) -> bool:
        """Removes a job; returns False if the job does not wait in this lane."""
        if self.jobs.pop(job.id, None) is None:
            return False
        self.tokens -= job.tokens
        self.rows -= job.rows
        return True

    def take(self, rows: int) -> list[Job]:
        """Removes and returns the oldest job, and jobs of similar length that fit into the rows.

        The jobs take at most `rows` rows together. If the oldest job alone takes more, no job is
        returned, because no other job may overtake it.
        """
        window = list(itertools.islice(self.jobs.values(), LOOK_AHEAD * rows))
        if not window:
            return []
        anchor = window[0].tokens
        taken: list[Job] = []
        for job in sorted(window, key=lambda job: abs(job.tokens - anchor)):
            if job.rows > rows:
                break
            rows -= job.rows
            taken.append(job)
        if window[0] not in taken:
            return []
        for job in taken:
            self.remove(job)
        return taken


class LanePair:
    """The interactive and the bulk lane of one length bucket."""

    def __init__(self) -> None:
        self.interactive = Lane()
        self.bulk = Lane()
        # Rows of interactive jobs that were taken while bulk jobs waited. BULK_SHARE - 1 of these
        # rows earn the bulk lane one row.
        self.debt = 0

    def __len__(self) -> int:
        return len(self.interactive) + len(self.bulk)

    @property
    def rows(self) -> int:
        """Number of rows that all waiting jobs take."""
        return self.interactive.rows + self.bulk.rows

    @property
    def next_rows(self) -> int:
        """Number of rows that the first job of either lane takes at most."""
        return max(self.interactive.next_rows, self.bulk.next_rows)

    def lane(self, job: Job) -> Lane:
        """Returns the lane in which a job waits."""
        return self.bulk if job.item.is_bulk else self.interactive

    def take(self, rows: int, spare: int | None = None) -> list[Job]:
        """Removes and returns jobs that take at most `rows` rows together; most are interactive.

        Only a few rows become free at a time, so `debt` carries the bulk lane's share from call
        to call. If the bulk lane has earned the rows of its oldest job, but fewer rows are free, no
        job is returned. The free rows then stay empty until this job fits.

        Args:
            rows: Number of free rows.
            spare: Largest number of rows that the bulk lane may take in addition to its share. It
                takes them only from rows that interactive jobs leave free. None means all of these.
        """
        if not len(self.bulk):
            self.debt = 0
        free = rows - self.interactive.rows
        allowed = max(self.debt // (BULK_SHARE - 1), free if spare is None else min(free, spare))
        if allowed >= self.bulk.next_rows > rows:
            return []
        bulk = self.bulk.take(min(rows, allowed))
        bulk_rows = sum(job.rows for job in bulk)
        interactive = self.interactive.take(rows - bulk_rows)
        if len(self.bulk):
            taken_rows = sum(job.rows for job in interactive)
            self.debt = max(0, self.debt + taken_rows - (BULK_SHARE - 1) * bulk_rows)
        return bulk + interactive


class LaneView:
    """All interactive lanes of a queue, or all bulk lanes, as one lane for the metrics."""

    def __init__(self, lanes: Sequence[Lane]) -> None:
        self.lanes = lanes

    def __len__(self) -> int:
        return sum(map(len, self.lanes))

    @property
    def tokens(self) -> int:
        """Number of tokens of all waiting jobs."""
        return sum(lane.tokens for lane in self.lanes)

    @property
    def oldest_age(self) -> float:
        """Seconds that the oldest job has waited; 0 in an empty lane."""
        return max(lane.oldest_age for lane in self.lanes)


class Queue:
    """The waiting jobs of one task kind and one model.

    Args:
        num_buckets: Number of length buckets.
    """

    def __init__(self, num_buckets: int = 1) -> None:
        self.buckets = [LanePair() for _ in range(num_buckets)]
        self.interactive = LaneView([pair.interactive for pair in self.buckets])
        self.bulk = LaneView([pair.bulk for pair in self.buckets])

    def __len__(self) -> int:
        return sum(map(len, self.buckets))

    @property
    def oldest_age(self) -> float:
        """Seconds that the oldest job has waited; 0 in an empty queue."""
        return max(self.interactive.oldest_age, self.bulk.oldest_age)

    def lane(self, job: Job) -> Lane:
        """Returns the lane in which a job waits."""
        return self.buckets[job.bucket].lane(job)

    def jobs(self) -> Iterator[Job]:
        """Yields all waiting jobs."""
        for pair in self.buckets:
            yield from pair.interactive.jobs.values()
            yield from pair.bulk.jobs.values()
