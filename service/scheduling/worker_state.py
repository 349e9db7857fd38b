"""The scheduler's record of one worker: the jobs that it holds and the capacity that they take."""

import time
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Protocol

from service.items.result import Done
from service.scheduling.job import Job
from service.workers.messages import ToWorker


class Link(Protocol):
    """The sending side of the channel to a worker.

    Attributes:
        name: Name of the worker.
    """

    name: str

    def send(self, message: ToWorker) -> None:
        """Sends a message without waiting."""


@dataclass(eq=False, slots=True)
class WorkerState:
    """One worker, as the scheduler sees it.

    Attributes:
        link: The channel to the worker.
        max_rows: Number of rows of each translation model's batch.
        held: Jobs that the worker holds, by id.
        used: Capacity that the held jobs take, by task kind, model and length bucket. The policy
            of the task kind defines the unit, such as rows or tokens.
        bulk_rows: Number of rows of the held jobs of bulk lanes, by task kind and model.
        tokens: Number of tokens of the held jobs, by task kind and model.
        missing: Models that the worker still has to load.
        gpu_models: Models that the worker computes on a GPU.
        rows_ahead: Number of rows beyond a model's batch that the worker may hold for each model.
    """

    link: Link
    max_rows: dict[str, int]
    held: dict[int, Job] = field(default_factory=dict)
    used: dict[tuple[str, str, int], int] = field(default_factory=lambda: defaultdict(int))
    bulk_rows: dict[tuple[str, str], int] = field(default_factory=lambda: defaultdict(int))
    tokens: dict[tuple[str, str], int] = field(default_factory=lambda: defaultdict(int))
    missing: set[str] = field(default_factory=set)
    gpu_models: set[str] = field(default_factory=set)
    rows_ahead: int = 0

    def give(self, jobs: Iterable[Job]) -> None:
        """Records jobs as dispatched to the worker."""
        now = time.perf_counter()
        for job in jobs:
            job.dispatched = now
            job.attempts += 1
            self.held[job.id] = job
            self.used[job.kind, job.model, job.bucket] += job.cost
            self.tokens[job.kind, job.model] += job.tokens
            if job.item.is_bulk:
                self.bulk_rows[job.kind, job.model] += job.rows

    def take_back(self, job: Job) -> None:
        """Removes a job that has ended or was cancelled."""
        del self.held[job.id]
        self.used[job.kind, job.model, job.bucket] -= job.cost
        self.tokens[job.kind, job.model] -= job.tokens
        if job.item.is_bulk:
            self.bulk_rows[job.kind, job.model] -= job.rows

    def deadline(self, done: Done) -> float:
        """Returns the deadline of a finished job, or 0 if the job has been cancelled."""
        job = self.held.get(done.id)
        return job.deadline if job is not None else 0.0

    def load(self, model: str, max_rows: int, is_on_gpu: bool) -> None:
        """Records that the worker has loaded a model; a model without a batch has 0 rows."""
        self.missing.discard(model)
        if is_on_gpu:
            self.gpu_models.add(model)
        if max_rows:
            self.max_rows[model] = max_rows

    def unload(self, model: str) -> list[Job]:
        """Forgets a model; returns the model's jobs that the worker still held."""
        left = [job for job in self.held.values() if job.model == model]
        for job in left:
            self.take_back(job)
        self.max_rows.pop(model, None)
        self.gpu_models.discard(model)
        for key in [key for key in self.used if key[1] == model]:
            del self.used[key]
        return left

    def free_rows(self, kind: str, model: str) -> int:
        """Returns the number of rows that the worker can take for a kind and model."""
        rows = self.max_rows.get(model, 0)
        return rows + self.rows_ahead - self.used[kind, model, 0] if rows else 0

    def total_used(self, kind: str) -> int:
        """Returns the capacity that all jobs of a kind take, over all models."""
        return sum(cost for (each, _, _), cost in self.used.items() if each == kind)
