"""A worker as the scheduler sees it: what it has been given, and what it has room for."""

import time
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from service.items.length_buckets import LEVELS, level_of
from service.scheduling.lanes import Job
from service.workers.messages import AttentionTask, EmbedTask, ToWorker

EMBED_TOKENS = 768
"""Tokens to embed that a worker has at once, of each model and level: some batches, so that it has
the next when it is done with one, and few enough that the order stays with the scheduler."""


KEPT_SHARE = 8
"""One row in so many stays free where bulk work is all there is: who comes with a sentence then
would otherwise wait for the end of one of the hundreds that a document has."""


class Link(Protocol):
    """The way to a worker."""

    name: str

    def send(self, message: ToWorker) -> None:
        """Sends without waiting."""


def no_tokens() -> list[int]:
    """At each level."""
    return [0] * LEVELS


@dataclass(eq=False, slots=True)
class Seat:
    """A worker: its free rows by model, and the jobs that it holds.

    Attributes:
        link: To it.
        max_rows: By model.
        free: Of those.
        held: Jobs by id.
        num_tasks: Of attention, among them.
        embed_tokens: To be embedded, by model and level.
        missing: Models that it has still to load.
    """

    link: Link
    max_rows: dict[str, int]
    free: dict[str, int]
    held: dict[int, Job] = field(default_factory=dict)
    num_tasks: int = 0
    embed_tokens: dict[str, list[int]] = field(default_factory=lambda: defaultdict(no_tokens))
    missing: set[str] = field(default_factory=set)

    def give(self, jobs: Iterable[Job]) -> None:
        """The worker has these from now on."""
        now = time.perf_counter()
        for job in jobs:
            job.dispatched = now
            job.attempts += 1
            self.held[job.id] = job
            self._count(job, 1)

    def take_back(self, job: Job) -> None:
        """The worker is done with it, or nobody waits for it any more."""
        del self.held[job.id]
        self._count(job, -1)

    def _count(self, job: Job, sign: int) -> None:
        if isinstance(job.work, EmbedTask):
            self.embed_tokens[job.model][level_of(job.tokens)] += sign * job.tokens
        elif isinstance(job.work, AttentionTask):
            self.num_tasks += sign
        else:
            self.free[job.model] -= sign * job.rows

    def load(self, model: str, max_rows: int) -> None:
        """The worker has one more model, of so many rows; of none where it only embeds."""
        self.missing.discard(model)
        if max_rows:
            self.max_rows[model] = self.free[model] = max_rows

    def unload(self, model: str) -> list[Job]:
        """The worker gets no more of a model; gives what it still holds of it."""
        left = [job for job in self.held.values() if job.model == model]
        for job in left:
            self.take_back(job)
        self.max_rows.pop(model, None)
        self.free.pop(model, None)
        self.embed_tokens.pop(model, None)
        return left

    def spare(self, model: str, beam: int) -> int:
        """Free rows that bulk work may have; where nothing is done, as many as a beam at least."""
        free, max_rows = self.free[model], self.max_rows[model]
        spare = free - max_rows // KEPT_SHARE
        return max(spare, beam) if free == max_rows else spare

    @property
    def used_rows(self) -> int:
        """Of all models."""
        return sum(self.max_rows.values()) - sum(self.free.values())


def least_burdened(seats: Iterable[Seat], model: str, level: int) -> Seat | None:
    """Who should embed the next text of a level: who computes least before it.

    Returns:
        None where nobody has room; who has nothing at that level has room for any text.
    """
    having = (seat for seat in seats if model not in seat.missing)
    fitting = [seat for seat in having if seat.embed_tokens[model][level] < EMBED_TOKENS]

    def burden(seat: Seat) -> tuple[int, int]:
        return sum(seat.embed_tokens[model][: level + 1]), seat.used_rows

    return min(fitting, key=burden, default=None)


def least_asked(seats: Iterable[Seat], model: str) -> Seat | None:
    """Who should show attention next: who has least of it, and of those least to translate.

    Returns:
        None where nobody has the model.
    """

    def burden(seat: Seat) -> tuple[int, int]:
        return seat.num_tasks, seat.used_rows

    return min((seat for seat in seats if model not in seat.missing), key=burden, default=None)


def first_seats(seats: Iterable[Seat], model: str) -> Sequence[Seat]:
    """Those with free rows of a model, most first."""
    free = [seat for seat in seats if seat.free.get(model, 0) > 0]
    return sorted(free, key=lambda seat: seat.free[model], reverse=True)
