"""Queues of waiting jobs. A job is a work item that the scheduler has accepted.

A queue has one or more length buckets, which separate short texts from long texts. Each bucket has
two lanes: one for interactive jobs and one for bulk jobs. A row is a place in the batch of a model.
The work of a job is counted in row-tokens: the number of its tokens times the number of its rows.
"""

import itertools
import math
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence

from service.scheduling.forecast.margin import Margin
from service.scheduling.forecast.pace import Pace
from service.scheduling.job import Job

LANES = ("interactive", "bulk")

LOOK_AHEAD = 4
"""For n free rows, jobs of similar length are chosen from the next LOOK_AHEAD * n jobs."""

BULK_SHARE = 5
"""While jobs wait in both lanes, the bulk lane gets one of every BULK_SHARE rows."""


class ClientJobs:
    """The waiting jobs of one client in a lane, in order of arrival."""

    def __init__(self) -> None:
        self.jobs: OrderedDict[int, Job] = OrderedDict()
        self.work = 0

    @property
    def first(self) -> Job:
        """The oldest job."""
        return next(iter(self.jobs.values()))


class Lane:
    """Holds waiting jobs. Clients take turns; the jobs of a client are in order of arrival.

    Any job may be removed before its turn.

    Attributes:
        clients: Maps each client to its jobs. The client whose turn is next comes first.
        num_jobs: Number of all jobs.
        tokens: Number of tokens of all jobs.
        rows: Number of rows that all jobs take.
        work: Number of row-tokens of all jobs.
        last_arrival: Time by time.perf_counter at which the newest job was submitted.
    """

    def __init__(self) -> None:
        self.last_arrival = -math.inf
        self.clients: OrderedDict[str, ClientJobs] = OrderedDict()
        self.num_jobs = 0
        self.tokens = 0
        self.rows = 0
        self.work = 0

    def __len__(self) -> int:
        return self.num_jobs

    def __iter__(self) -> Iterator[Job]:
        """Yields the jobs in order of their turns."""
        if len(self.clients) == 1:
            (only,) = self.clients.values()
            return iter(only.jobs.values())
        columns = [each.jobs.values() for each in self.clients.values()]
        turns = itertools.chain.from_iterable(itertools.zip_longest(*columns))
        return (job for job in turns if job is not None)

    @property
    def oldest_age(self) -> float:
        """Seconds that the oldest job has waited; 0 in an empty lane."""
        if not self.clients:
            return 0.0
        return time.perf_counter() - min(each.first.created for each in self.clients.values())

    @property
    def next_rows(self) -> int:
        """Number of rows that the next job takes; 0 in an empty lane."""
        return next(iter(self.clients.values())).first.rows if self.clients else 0

    def add(self, job: Job, is_first: bool = False) -> None:
        """Adds a job as the last job of its client, or, with `is_first`, as the first of the lane.

        A job is put first if its worker has died.
        """
        client = self.clients.get(job.client)
        if client is None:
            client = self.clients[job.client] = ClientJobs()
        client.jobs[job.id] = job
        client.work += job.work
        if is_first:
            client.jobs.move_to_end(job.id, last=False)
            self.clients.move_to_end(job.client, last=False)
        self.last_arrival = max(self.last_arrival, job.created)
        self.num_jobs += 1
        self.tokens += job.tokens
        self.rows += job.rows
        self.work += job.work

    def remove(self, job: Job) -> bool:
        """Removes a job; returns False if the job does not wait in this lane."""
        client = self.clients.get(job.client)
        if client is None or client.jobs.pop(job.id, None) is None:
            return False
        client.work -= job.work
        if not client.jobs:
            del self.clients[job.client]
        self.num_jobs -= 1
        self.tokens -= job.tokens
        self.rows -= job.rows
        self.work -= job.work
        return True

    def remove_first(self, is_unwanted: Callable[[Job], bool]) -> list[Job]:
        """Removes and returns the unwanted jobs before the first wanted job of each client."""
        removed = [
            job
            for client in self.clients.values()
            for job in itertools.takewhile(is_unwanted, client.jobs.values())
        ]
        for job in removed:
            self.remove(job)
        return removed

    def work_before(self, client: str, new: float) -> float:
        """Returns the waiting work, in row-tokens, ahead of the last new job of a client.

        Clients take turns. The work of each other client therefore counts only up to the amount of
        this client's work, new jobs included.

        Args:
            client: The client.
            new: Work of the client's new jobs, which are not in the lane yet.
        """
        known = self.clients.get(client)
        own = known.work if known else 0
        if len(self.clients) == (known is not None):
            return own
        others = [each.work for each in self.clients.values() if each is not known]
        return own + sum([min(work, own + new) for work in others])

    def take(self, rows: int) -> list[Job]:
        """Removes and returns the next job, and jobs of similar length that fit into the rows.

        The jobs take at most `rows` rows together. If all jobs of the lane fit, all are returned.
        If the next job alone takes more rows, no job is returned, because no other job may
        overtake the next job.
        """
        if self.rows <= rows:
            return self._take_all()
        window = list(itertools.islice(self, LOOK_AHEAD * rows))
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
            if len(self.clients) > 1 and job.client in self.clients:
                self.clients.move_to_end(job.client)
        return taken

    def _take_all(self) -> list[Job]:
        """Removes and returns all jobs."""
        taken = list(self)
        self.clients.clear()
        self.num_jobs = self.tokens = self.rows = self.work = 0
        return taken


class LanePair:
    """The interactive and the bulk lane of one length bucket."""

    def __init__(self) -> None:
        self.interactive = Lane()
        self.bulk = Lane()
        # Rows of interactive jobs that were taken while bulk jobs waited. When the debt reaches
        # BULK_SHARE - 1, the bulk lane may take one row, which lowers the debt by BULK_SHARE - 1.
        self.debt = 0

    def __len__(self) -> int:
        return self.interactive.num_jobs + self.bulk.num_jobs

    @property
    def rows(self) -> int:
        """Number of rows that all waiting jobs take."""
        return self.interactive.rows + self.bulk.rows

    @property
    def next_rows(self) -> int:
        """Number of rows of the next interactive or the next bulk job, whichever takes more."""
        return max(self.interactive.next_rows, self.bulk.next_rows)

    def lane(self, job: Job) -> Lane:
        """Returns the lane in which a job waits."""
        return self.bulk if job.item.is_bulk else self.interactive

    def take(self, rows: int, spare: int | None = None) -> list[Job]:
        """Removes and returns jobs that take at most `rows` rows together.

        The bulk lane may take its share of the rows. If interactive jobs leave more rows free than
        this share, the bulk lane may take the free rows instead.

        Only a few rows become free at a time, so `debt` carries the bulk lane's share from call
        to call. If the bulk lane has earned the rows of its next job, but fewer rows are free, no
        job is returned. The free rows then stay empty until this job fits.

        Args:
            rows: Number of free rows.
            spare: Largest number of rows that the bulk lane may take from the rows that interactive
                jobs leave free. None means all of these rows. The bulk lane's share of the rows is
                not limited by `spare`.
        """
        if not len(self.bulk):
            self.debt = 0
            return self.interactive.take(rows)
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

    Attributes:
        pace: Measured rate of the workers.
        margin: Measured errors of predicted times.
    """

    def __init__(self, num_buckets: int = 1) -> None:
        self.buckets = [LanePair() for _ in range(num_buckets)]
        self.pace = Pace()
        self.margin = Margin()
        self.interactive = LaneView([pair.interactive for pair in self.buckets])
        self.bulk = LaneView([pair.bulk for pair in self.buckets])

    def __len__(self) -> int:
        return sum(map(len, self.buckets))

    def __bool__(self) -> bool:
        """Returns whether a job waits; this is faster than counting the jobs."""
        for pair in self.buckets:  # a loop is faster than any() with a generator
            if pair.interactive.num_jobs or pair.bulk.num_jobs:
                return True
        return False

    @property
    def rows(self) -> int:
        """Number of rows that all waiting jobs take."""
        return sum(pair.rows for pair in self.buckets)

    @property
    def oldest_age(self) -> float:
        """Seconds that the oldest job has waited; 0 in an empty queue."""
        return max(self.interactive.oldest_age, self.bulk.oldest_age)

    def lane(self, job: Job) -> Lane:
        """Returns the lane in which a job waits."""
        return self.buckets[job.bucket].lane(job)

    def work_before(self, jobs: Sequence[Job]) -> float:
        """Returns the waiting work that is dispatched before the last new job, in row-tokens.

        Jobs in buckets of longer texts than the new jobs do not count. Later interactive jobs may
        overtake a new bulk job. They are not known yet, so their work does not count.

        Args:
            jobs: New jobs of one submission, at least one.
        """
        client, is_bulk = jobs[0].client, jobs[0].item.is_bulk
        new = sum([job.work for job in jobs])
        buckets = self.buckets[: max([job.bucket for job in jobs]) + 1]
        interactive = sum([pair.interactive.work_before(client, new) for pair in buckets])
        bulk = sum([pair.bulk.work_before(client, new) for pair in buckets])
        return interactive + (bulk if is_bulk else min(bulk, interactive / (BULK_SHARE - 1)))

    def remove_first(self, is_unwanted: Callable[[Job], bool]) -> list[Job]:
        """Removes and returns the jobs that `Lane.remove_first` removes from each lane."""
        return [
            job
            for pair in self.buckets
            for lane in (pair.interactive, pair.bulk)
            if len(lane)
            for job in lane.remove_first(is_unwanted)
        ]

    def jobs(self) -> Iterator[Job]:
        """Yields all waiting jobs."""
        for pair in self.buckets:
            yield from pair.interactive
            yield from pair.bulk
