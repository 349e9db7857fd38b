"""Work that a worker computes slice by slice between the steps of its translations.

Embeddings and attention each have a SideWork. While there is other work, every second of that earns
it some time, and slices are computed while there is any left.
"""

import time
from collections.abc import Callable, Collection, Sequence
from typing import Generic, Protocol, TypeVar

from model.sequence import BatchStats

MAX_CREDIT_SECONDS = 0.005
"""Time that may have been saved up, so that nobody takes a long turn after a quiet while."""

EMBEDDING_SHARE = 0.5
"""Of the time, how much goes to embeddings while sentences are translated: half. Both are what the
server is for, and which of them a caller waits for more urgently only the caller knows."""

Task = TypeVar("Task", covariant=True)


class Queue(Protocol[Task]):
    """Tasks of one model."""

    stats: list[BatchStats]

    def __len__(self) -> int:
        """How many are not done."""

    def abort(self, ids: Collection[int]) -> None:
        """Drops tasks."""

    def isolate(self) -> Sequence[Task]:
        """Gives up what has failed: its tasks are computed one by one, or returned if alone."""

    def drain_stats(self) -> list[BatchStats]:
        """What was computed since the last call."""


Kind = TypeVar("Kind", bound=Queue[object])


class SideWork(Generic[Kind]):
    """Queues of one kind, whose models take turns.

    Args:
        share: Of the time, how much they get beside other work, above 0 and below 1.
    """

    def __init__(self, share: float) -> None:
        self.share = share
        self.queues: dict[str, Kind] = {}
        self.credit = 0.0  # seconds

    def __len__(self) -> int:
        return sum(map(len, self.queues.values()))

    def names(self) -> list[str]:
        """Models that something is asked of, whose turn is next first."""
        return [name for name, queue in self.queues.items() if len(queue)]

    def earn(self, seconds: float) -> None:
        """Other work has taken so long."""
        earned = seconds * self.share / (1 - self.share)
        self.credit = min(self.credit + earned, MAX_CREDIT_SECONDS)

    def run(self, is_beside: bool, advance: Callable[[str], None]) -> None:
        """Computes slices: its share beside other work, else one of each model.

        Args:
            is_beside: Whether there is other work.
            advance: Computes one slice of a model.
        """
        if not is_beside:
            self.credit = 0.0
            for name in self.names():
                advance(name)
            return
        while self.credit > 0 and (names := self.names()):
            # Its turn ends here: credit is often for one slice, and the first would get them all.
            self.queues[names[0]] = self.queues.pop(names[0])
            start = time.perf_counter()
            advance(names[0])
            self.credit -= time.perf_counter() - start
