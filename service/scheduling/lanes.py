"""Where sentences wait: two lanes for each model, taken from by length, the oldest always first."""

import asyncio
import itertools
import time
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from model.sequence import Hypothesis, Sequence
from service.workers.messages import AttentionTask, EmbedTask

LOOK_AHEAD = 4
"""Candidates looked at for each row to fill, when sentences of like length are sought."""

BULK_SHARE = 5
"""One row in so many goes to the bulk lane while both lanes wait."""


@dataclass(slots=True)
class Translated:
    """The result of one sentence, with the time that it spent waiting and decoding."""

    hypotheses: list[Hypothesis]
    queue_seconds: float
    device_seconds: float


@dataclass(frozen=True, slots=True)
class Shown:
    """What was asked about the attention in one sentence, with its times.

    Attributes:
        results: An AttentionMaps or AttentionTrace for each query.
        queue_seconds: Until a worker took it.
        device_seconds: From then on.
    """

    results: list[Any]
    queue_seconds: float
    device_seconds: float


@dataclass(slots=True)
class EmbeddedText:
    """The vector of one text, with its times.

    Attributes:
        vectors: Float32, as bytes; of each token one, behind one another, where those were wanted.
        queue_seconds: Until a worker took it.
        device_seconds: From then on.
    """

    vectors: bytes
    queue_seconds: float
    device_seconds: float


@dataclass(eq=False, slots=True)
class Job:
    """One sentence between admission and result.

    Attributes:
        model: Served name.
        work: What the worker gets.
        is_bulk: Which lane it waits in.
        future: Settled exactly once.
        created: When it was admitted (time.perf_counter).
        dispatched: When a worker got it.
        attempts: How many workers have had it.
        id: By which a worker knows it.
        rows: That it takes in a batch; none for attention and embeddings, which are computed
            beside it.
        tokens: Of the source, and of a translation that comes along.
    """

    model: str
    work: Sequence | AttentionTask | EmbedTask
    is_bulk: bool
    future: asyncio.Future[Any]
    created: float = field(default_factory=time.perf_counter)
    dispatched: float = 0.0
    attempts: int = 0

    id: int = field(init=False)
    rows: int = field(init=False)
    tokens: int = field(init=False)

    def __post_init__(self) -> None:
        self.id = self.work.id
        if isinstance(self.work, Sequence):
            self.rows, self.tokens = self.work.options.beam_size, len(self.work.source)
        elif isinstance(self.work, EmbedTask):
            self.rows, self.tokens = 0, len(self.work.ids)
        else:
            job = self.work.job
            self.rows, self.tokens = 0, len(job.source) + len(job.target)

    @property
    def is_settled(self) -> bool:
        """Whether a worker has settled it; a deadline cancels the future that is awaited."""
        return self.future.done() and not self.future.cancelled()

    @property
    def task(self) -> str:
        """One of TASKS."""
        if isinstance(self.work, EmbedTask):
            return "embed"
        return "translate" if isinstance(self.work, Sequence) else "attention"


class Lane:
    """Jobs in order of arrival, any of which may leave early."""

    def __init__(self) -> None:
        self.jobs: OrderedDict[int, Job] = OrderedDict()
        self.tokens = 0
        self.rows = 0

    def __len__(self) -> int:
        return len(self.jobs)

    @property
    def oldest_age(self) -> float:
        """Seconds that the first has waited; 0 where none waits."""
        if not self.jobs:
            return 0.0
        return time.perf_counter() - next(iter(self.jobs.values())).created

    @property
    def next_rows(self) -> int:
        """Rows that the first takes; 0 where none waits."""
        return next(iter(self.jobs.values())).rows if self.jobs else 0

    def add(self, job: Job, is_first: bool = False) -> None:
        """Puts a job last, or first again after its worker died."""
        self.jobs[job.id] = job
        self.jobs.move_to_end(job.id, last=not is_first)
        self.tokens += job.tokens
        self.rows += job.rows

    def remove(self, job: Job) -> bool:
        """Takes a job out; False if it is not here."""
        if self.jobs.pop(job.id, None) is None:
            return False
        self.tokens -= job.tokens
        self.rows -= job.rows
        return True

    def take_first(self) -> Job:
        """The oldest; there is one."""
        job = next(iter(self.jobs.values()))
        self.remove(job)
        return job

    def take(self, rows: int) -> list[Job]:
        """At most so many rows of jobs: the oldest, and those nearest to it in length.

        A beam that is wider than what is free waits, and nobody passes it.
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


class ModelQueue:
    """The two lanes of one model's sentences."""

    def __init__(self) -> None:
        self.interactive = Lane()
        self.bulk = Lane()
        self.passed = 0  # rows that went to the other lane while bulk waited

    @property
    def lanes(self) -> tuple[Lane, Lane]:
        """In the order of LANES."""
        return self.interactive, self.bulk

    @property
    def rows(self) -> int:
        """Rows that all who wait would take."""
        return self.interactive.rows + self.bulk.rows

    @property
    def next_rows(self) -> int:
        """Rows that the wider of the two oldest takes; with fewer it can only wait."""
        return max(self.interactive.next_rows, self.bulk.next_rows)

    def jobs(self) -> Iterator[Job]:
        """All who wait."""
        for lane in self.lanes:
            yield from lane.jobs.values()

    def lane(self, job: Job) -> Lane:
        """Where a job waits."""
        return self.bulk if job.is_bulk else self.interactive

    def take(self, rows: int, spare: int | None = None) -> list[Job]:
        """At most so many rows of jobs, most of them from the interactive lane.

        Rows become free a few at a time, so that the share of the bulk lane is kept as a debt over
        many calls. A wide beam whose turn has come has the rows that are free kept for it.

        Args:
            rows: That are free.
            spare: Of those, how many the bulk lane may have before its turn; all by default.
        """
        if not len(self.bulk):
            self.passed = 0
        free = rows - self.interactive.rows
        allowed = max(self.passed // (BULK_SHARE - 1), free if spare is None else min(free, spare))
        if allowed >= self.bulk.next_rows > rows:
            return []
        bulk = self.bulk.take(min(rows, allowed))
        bulk_rows = sum(job.rows for job in bulk)
        interactive = self.interactive.take(rows - bulk_rows)
        if len(self.bulk):
            gone = sum(job.rows for job in interactive)
            self.passed = max(0, self.passed + gone - (BULK_SHARE - 1) * bulk_rows)
        return bulk + interactive
