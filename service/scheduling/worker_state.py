"""The scheduler's record of one worker: the items that it holds and the capacity that they take."""

import time
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Protocol

from service.items import WorkItem
from service.workers.messages import ToWorker


class Link(Protocol):
    """The sending side of the channel to a worker."""

    name: str

    def send(self, message: ToWorker) -> None: ...


@dataclass(eq=False, slots=True)
class WorkerState:
    link: Link
    # Number of rows of the batch of each loaded model; 0 for a model without such a batch.
    max_rows: dict[str, int] = field(default_factory=dict)
    held: dict[int, WorkItem] = field(default_factory=dict)  # by id
    # Capacity that the held items take, by task kind, model and length bucket, in the unit of the
    # kind's policy.
    used: dict[tuple[str, str, int], int] = field(default_factory=lambda: defaultdict(int))
    # Number of rows of the held items of bulk lanes, by task kind and model.
    bulk_rows: dict[tuple[str, str], int] = field(default_factory=lambda: defaultdict(int))
    gpu_models: set[str] = field(default_factory=set)  # models that it computes on a GPU
    rows_ahead: int = 0  # rows beyond a model's batch that it may hold for each model

    def give(self, items: Iterable[WorkItem]) -> None:
        now = time.perf_counter()
        for item in items:
            item.dispatched = now
            item.attempts += 1
            self.held[item.id] = item
            self.used[item.kind, item.model, item.bucket] += item.cost
            item.queue.occupancy += item.load
            if item.is_bulk:
                self.bulk_rows[item.kind, item.model] += item.rows

    def take_back(self, item: WorkItem) -> None:
        del self.held[item.id]
        self.used[item.kind, item.model, item.bucket] -= item.cost
        item.queue.occupancy -= item.load
        if item.is_bulk:
            self.bulk_rows[item.kind, item.model] -= item.rows

    def take_back_all(self) -> list[WorkItem]:
        items = [*self.held.values()]
        for item in items:
            self.take_back(item)
        return items

    def load(self, model: str, max_rows: int, is_on_gpu: bool) -> None:
        self.max_rows[model] = max_rows
        if is_on_gpu:
            self.gpu_models.add(model)

    def unload(self, model: str) -> list[WorkItem]:
        left = [item for item in self.held.values() if item.model == model]
        for item in left:
            self.take_back(item)
        self.max_rows.pop(model, None)
        self.gpu_models.discard(model)
        for key in [key for key in self.used if key[1] == model]:
            del self.used[key]
        return left

    def total_used(self, kind: str) -> int:
        return sum([cost for (each, _, _), cost in self.used.items() if each == kind])
