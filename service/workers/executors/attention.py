"""Attention beside other work: in a worker, the tasks of one model, slice by slice.

A slice takes one to five milliseconds; `side_work.py` says when its turn has come.
"""

from collections import deque
from collections.abc import Callable, Collection, Iterable, Sequence

import torch

from model.encoding.teacher_forced import CapturePass
from model.inspection.query import AttentionJob
from model.sequence import BatchStats
from service.workers.messages import AttentionTask, Inspected

NewInspection = Callable[[Sequence[AttentionJob]], CapturePass]
"""Begins to show attention."""


class InspectionQueue:
    """Tasks that wait, and a pass over those whose turn it is.

    Args:
        new_pass: Begins to show attention of the model.
        device: Where that is done.
    """

    noun = "attention task"

    def __init__(self, new_pass: NewInspection, device: torch.device) -> None:
        self.new_pass = new_pass
        self.device = device
        self.waiting: deque[AttentionTask] = deque()
        self.alone: deque[AttentionTask] = deque()  # each of them, since their pass has failed
        self.running: list[AttentionTask] = []
        self.given_up: set[int] = set()  # of those
        self.attention_pass: CapturePass | None = None
        self.stats: list[BatchStats] = []

    def __len__(self) -> int:
        return len(self.waiting) + len(self.alone) + len(self.running)

    @property
    def num_running(self) -> int:
        """Tasks of the pass that had the last slice."""
        return len(self.running)

    def add(self, tasks: Iterable[AttentionTask]) -> None:
        """They are computed together, after the pass that is under way."""
        self.waiting.extend(tasks)

    def abort(self, ids: Collection[int]) -> None:
        """Drops tasks; a pass goes on for those of it that are left."""
        for tasks in (self.waiting, self.alone):
            left = [task for task in tasks if task.id not in ids]
            tasks.clear()
            tasks.extend(left)
        self.given_up.update(task.id for task in self.running if task.id in ids)
        if len(self.given_up) == len(self.running):
            self._end()

    def advance(self) -> list[Inspected]:
        """Computes one slice; the results of a pass that ends with it.

        Raises:
            Exception: The pass has failed; `isolate` is the way on.
        """
        if self.attention_pass is None:
            self._choose()
            self.attention_pass = self.new_pass([task.job for task in self.running])
        if self.attention_pass.advance():
            return []
        results = self.attention_pass.results()
        inspected = [
            Inspected(task.id, result)
            for task, result in zip(self.running, results, strict=True)
            if task.id not in self.given_up
        ]
        tokens = sum(len(task.job.source) + len(task.job.target) for task in self.running)
        self.stats.append(BatchStats("attention", len(self.running), tokens, 0))
        self._end()
        return inspected

    def isolate(self) -> list[AttentionTask]:
        """Gives up a pass that has failed: its tasks are computed one by one.

        Returns:
            The task that was alone in it, and so is what fails; else nothing.
        """
        tasks = [task for task in self.running if task.id not in self.given_up]
        was_alone = len(self.running) == 1
        self._end()
        if was_alone:
            return tasks
        self.alone.extend(tasks)
        return []

    def drain_stats(self) -> list[BatchStats]:
        """What was computed since the last call."""
        stats, self.stats = self.stats, []
        return stats

    def _choose(self) -> None:
        if self.alone:
            self.running = [self.alone.popleft()]
        else:
            self.running = list(self.waiting)
            self.waiting.clear()

    def _end(self) -> None:
        self.running, self.given_up, self.attention_pass = [], set(), None
