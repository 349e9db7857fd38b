"""Work that a worker computes slice by slice between the steps of its translations.

Embeddings and attention each have a SideWork. While there is other work, every second of that earns
it some time, and slices are computed while there is any left.
"""

import time
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Generic, Protocol, TypeVar

import torch

from model.sequence import BatchStats

MAX_CREDIT_SECONDS = 0.005
"""Time that may have been saved up, so that nobody takes a long turn after a quiet while."""

EMBEDDING_SHARE = 0.5
"""Of the time, how much goes to embeddings while sentences are translated: half. Both are what the
server is for, and which of them a caller waits for more urgently only the caller knows."""


class Numbered(Protocol):
    """What has an id."""

    @property
    def id(self) -> int:
        """The server's."""


Task = TypeVar("Task", bound=Numbered)
Result = TypeVar("Result", covariant=True)


class Queue(Protocol[Task, Result]):
    """Tasks of one model.

    Attributes:
        noun: What a task is, for the log.
        device: Where they are computed.
        stats: What was, since `drain_stats`.
    """

    noun: str
    device: torch.device
    stats: list[BatchStats]

    def __len__(self) -> int:
        """How many are not done."""

    @property
    def num_running(self) -> int:
        """How many had the last slice."""

    def add(self, tasks: Iterable[Task]) -> None:
        """Takes more."""

    def abort(self, ids: Collection[int]) -> None:
        """Drops tasks."""

    def advance(self) -> Sequence[Result]:
        """Computes one slice; gives the results of what ends with it.

        Raises:
            Exception: It has failed; `isolate` is the way on.
        """

    def isolate(self) -> Sequence[Task]:
        """Gives up what has failed: its tasks are computed one by one, or returned if alone."""

    def drain_stats(self) -> list[BatchStats]:
        """What was computed since the last call."""


OnFailure = Callable[[str, Queue[Task, Result], Exception], None]


class SideWork(Generic[Task, Result]):
    """Queues of one kind, whose models take turns.

    Args:
        share: Of the time, how much they get beside other work, above 0 and below 1.
    """

    def __init__(self, share: float) -> None:
        self.share = share
        self.queues: dict[str, Queue[Task, Result]] = {}
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

    def run(self, is_beside: bool, on_failure: OnFailure[Task, Result]) -> list[Result]:
        """Computes slices, its share beside other work, else one of each model; gives results.

        Args:
            is_beside: Whether there is other work.
            on_failure: Told of a queue of which a slice has failed, and its model.
        """
        results: list[Result] = []
        if not is_beside:
            self.credit = 0.0
            for name in self.names():
                results += self._advance(name, on_failure)
            return results
        while self.credit > 0 and (names := self.names()):
            # Its turn ends here: credit is often for one slice, and the first would get them all.
            self.queues[names[0]] = self.queues.pop(names[0])
            start = time.perf_counter()
            results += self._advance(names[0], on_failure)
            self.credit -= time.perf_counter() - start
        return results

    def _advance(self, name: str, on_failure: OnFailure[Task, Result]) -> Sequence[Result]:
        queue = self.queues[name]
        try:
            return queue.advance()
        except Exception as error:
            on_failure(name, queue, error)
            return []
