"""Computes attention in a worker: sentence pairs or texts of one model, slice by slice.

A slice takes one to five milliseconds; `service.workers.time_share` decides when it runs.
"""

from collections.abc import Callable, Collection, Iterable, Sequence

import torch

from model.encoding.capture_pass import CapturePass
from model.inspection.query import AttentionJob
from model.sequence import BatchStats
from service.items import AttentionItem, Done
from service.workers.executors.base import Backlog, Executor, take_all

BeginCapture = Callable[[Sequence[AttentionJob]], CapturePass]
"""Starts a pass that captures the attention of the given jobs."""


class AttentionExecutor(Executor[AttentionItem]):
    """Captures the attention of all waiting items together; a step computes one slice."""

    noun = "attention item"

    def __init__(self, begin: BeginCapture, device: torch.device) -> None:
        super().__init__(device)
        self.begin = begin
        self.backlog: Backlog[AttentionItem] = Backlog()
        self.capture: CapturePass | None = None

    def __len__(self) -> int:
        return len(self.backlog)

    def __bool__(self) -> bool:
        return bool(self.backlog)

    @property
    def num_running(self) -> int:
        return len(self.backlog.running)

    def add(self, items: Iterable[AttentionItem]) -> None:
        self.backlog.waiting.extend(items)

    def abort(self, ids: Collection[int]) -> None:
        self.backlog.abort(ids)
        if self.backlog.is_given_up:
            self._end()

    def step(self, low_latency: bool = False) -> list[Done]:
        """Computes one slice; after the last slice of a batch, returns the batch's results."""
        backlog = self.backlog
        if self.capture is None:
            items = backlog.begin(take_all)
            self.capture = self.begin([item.job for item in items])
        if self.capture.advance():
            return []
        items = list(backlog.running.values())
        done = [
            Done(item.id, result)
            for item, result in zip(items, self.capture.results(), strict=True)
            if item.id not in backlog.given_up
        ]
        tokens = sum(item.num_tokens for item in items)
        self.stats.append(BatchStats("attention", len(items), tokens, 0))
        self._end()
        return done

    def isolate(self) -> list[AttentionItem]:
        self.capture = None
        return self.backlog.isolate()

    def _end(self) -> None:
        self.capture = None
        self.backlog.end()
