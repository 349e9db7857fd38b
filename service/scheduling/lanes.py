"""Lanes in which jobs wait: an interactive and a bulk lane for each length bucket of a queue."""

import itertools
import time
from collections import OrderedDict
from collections.abc import Iterator, Sequence

from service.scheduling.job import Job

LANES = ("interactive", "bulk")

LOOK_AHEAD = 4
"""Number of waiting jobs, per free row, among which jobs of similar length are chosen."""

BULK_SHARE = 5
"""While jobs wait in both lanes, one in BULK_SHARE rows goes to the bulk lane."""


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
        self.debt = 0  # rows of interactive jobs for which the bulk lane has not had its share yet

    def __len__(self) -> int:
        return len(self.interactive) + len(self.bulk)

    @property
    def rows(self) -> int:
        """Number of rows that all waiting jobs take."""
        return self.interactive.rows + self.bulk.rows

    @property
    def next_rows(self) -> int:
        """Rows of the larger of two jobs: the oldest of each lane."""
        return max(self.interactive.next_rows, self.bulk.next_rows)

    def lane(self, job: Job) -> Lane:
        """Returns the lane in which a job waits."""
        return self.bulk if job.item.is_bulk else self.interactive

    def take(self, rows: int, spare: int | None = None) -> list[Job]:
        """Removes and returns jobs that take at most `rows` rows together; most are interactive.

        Only a few rows become free at a time, so `debt` carries the bulk lane's share from call
        to call. If the bulk lane has its turn, and its oldest job is a wide beam, free rows stay
        empty until the beam fits.

        Args:
            rows: Number of free rows.
            spare: Largest number of rows for the bulk lane before its turn, out of the rows that
                interactive jobs leave free. None means all of these rows.
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
    """One lane of a queue over all of its length buckets, for the gauges of the metrics."""

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
        """Seconds that the oldest job has waited."""
        return max(self.interactive.oldest_age, self.bulk.oldest_age)

    def lane(self, job: Job) -> Lane:
        """Returns the lane in which a job waits."""
        return self.buckets[job.bucket].lane(job)

    def jobs(self) -> Iterator[Job]:
        """Yields all waiting jobs."""
        for pair in self.buckets:
            yield from pair.interactive.jobs.values()
            yield from pair.bulk.jobs.values()
