"""Embeddings in a worker: the texts of one model, batch by batch and slice by slice.

Texts of like length are computed together, short ones first: one that comes while a long one is
computed goes ahead of it at the next slice. A part of the work goes to whoever has waited longest,
so that long texts come to an end however many short ones there are.
"""

from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray

from model.sequence import BatchStats
from service.items.length_buckets import LEVELS, level_of
from service.workers.messages import Embedded, EmbedTask

BATCH_TOKENS = 256
"""About how many tokens are computed at once. More hardly make a token cheaper on a CPU, and who
comes then waits longer; fewer make it dearer."""

OLDEST_SHARE = 0.25
"""Of the work, how much goes to the oldest text, and those computed with it, while shorter ones go
ahead. It is reckoned in tokens: slices of long texts are the dearer ones."""


class Pass(Protocol):
    """Texts that are being embedded, as `model.encoding.embedding` does it."""

    def advance(self) -> bool:
        """Computes the next slice; False once all are computed."""

    def take_finished(self) -> Mapping[int, NDArray[np.float32]]:
        """What has been computed, by the place of the text."""


NewPass = Callable[[Sequence[EmbedTask]], Pass]


@dataclass(slots=True)
class Batch:
    """Texts whose turn it is.

    Attributes:
        tasks: In the order in which the pass has them.
        running: None until their turn has come for the first time.
        given_up: Ids for which nobody waits any more.
    """

    tasks: list[EmbedTask]
    running: Pass | None = None
    given_up: set[int] = field(default_factory=set)

    @property
    def tokens(self) -> int:
        """Of all texts, or of a slice where they are more: about what a slice costs."""
        return min(BATCH_TOKENS, sum([len(task.ids) for task in self.tasks]))

    def take(self) -> list[Embedded]:
        """The vectors of those for which somebody waits."""
        assert self.running is not None
        finished = self.running.take_finished()
        return [
            Embedded(task.id, finished[place].tobytes())
            for place, task in enumerate(self.tasks)
            if task.id not in self.given_up
        ]


class Level:
    """Texts of about one length: those that wait, and the batch that is computed."""

    def __init__(self) -> None:
        self.waiting: deque[EmbedTask] = deque()
        self.alone: deque[EmbedTask] = deque()  # each of them, since their batch has failed
        self.batch = Batch([])

    def __len__(self) -> int:
        return len(self.waiting) + len(self.alone) + len(self.batch.tasks)

    @property
    def oldest(self) -> int:
        """The lowest id; there is one."""
        firsts = [tasks[0].id for tasks in (self.waiting, self.alone) if tasks]
        return min([*firsts, *(task.id for task in self.batch.tasks)])

    def abort(self, ids: Collection[int]) -> None:
        """Drops texts; a batch goes on for those of it that are left."""
        for tasks in (self.waiting, self.alone):
            left = [task for task in tasks if task.id not in ids]
            tasks.clear()
            tasks.extend(left)
        self.batch.given_up.update(task.id for task in self.batch.tasks if task.id in ids)
        if len(self.batch.given_up) == len(self.batch.tasks):
            self.batch = Batch([])

    def choose(self) -> Batch:
        """The batch that is under way, or the next: the oldest that fit."""
        if not self.batch.tasks:
            self.batch = Batch([self.alone.popleft()] if self.alone else self._fitting())
        return self.batch

    def _fitting(self) -> list[EmbedTask]:
        tasks = [self.waiting.popleft()]
        tokens = len(tasks[0].ids)
        while self.waiting and tokens + len(self.waiting[0].ids) <= BATCH_TOKENS:
            tasks.append(self.waiting.popleft())
            tokens += len(tasks[-1].ids)
        return tasks


class EmbeddingQueue:
    """Texts of one model, by length.

    Args:
        new_pass: Begins to embed texts.
        device: Where that is done.
    """

    noun = "text"

    def __init__(self, new_pass: NewPass, device: torch.device) -> None:
        self.new_pass = new_pass
        self.device = device
        self.levels = [Level() for _ in range(LEVELS)]
        self.current = self.levels[0]  # whose slice was the last
        self.debt = 0.0  # tokens that are due to the oldest
        self.stats: list[BatchStats] = []

    def __len__(self) -> int:
        return sum(map(len, self.levels))

    @property
    def num_running(self) -> int:
        """Texts of the batch that had the last slice."""
        return len(self.current.batch.tasks)

    def add(self, tasks: Iterable[EmbedTask]) -> None:
        """They are computed with others of about their length."""
        for task in tasks:
            self.levels[level_of(len(task.ids))].waiting.append(task)

    def abort(self, ids: Collection[int]) -> None:
        """Drops texts."""
        for level in self.levels:
            level.abort(ids)

    def advance(self) -> list[Embedded]:
        """Computes one slice; the vectors of a batch that ends with it.

        Raises:
            Exception: The batch has failed; `isolate` is the way on.
        """
        self.current = self._next_level()
        batch = self.current.choose()
        if batch.running is None:
            batch.running = self.new_pass(batch.tasks)
        if batch.running.advance():
            return []
        embedded = batch.take()
        tokens = sum(len(task.ids) for task in batch.tasks)
        self.stats.append(BatchStats("embed", len(batch.tasks), tokens, 0))
        self.current.batch = Batch([])
        return embedded

    def _next_level(self) -> Level:
        """The shortest texts' mostly, now and then the oldest's; there is one."""
        busy = [level for level in self.levels if len(level)]
        shortest = busy[0]
        oldest = min(busy, key=lambda level: level.oldest) if len(busy) > 1 else shortest
        if oldest is shortest:
            return shortest
        cost = oldest.choose().tokens
        if self.debt >= cost:
            self.debt -= cost
            return oldest
        self.debt += shortest.choose().tokens * OLDEST_SHARE / (1 - OLDEST_SHARE)
        return shortest

    def isolate(self) -> list[EmbedTask]:
        """Gives up a batch that has failed: its texts are computed one by one.

        Returns:
            The text that was alone in it, and so is what fails; else nothing.
        """
        batch = self.current.batch
        tasks = [task for task in batch.tasks if task.id not in batch.given_up]
        self.current.batch = Batch([])
        if len(batch.tasks) == 1:
            return tasks
        self.current.alone.extend(tasks)
        return []

    def drain_stats(self) -> list[BatchStats]:
        """What was computed since the last call."""
        stats, self.stats = self.stats, []
        return stats
