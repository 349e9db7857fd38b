"""The interface of an executor, and what executors share: backlog, limit of tokens, turns.

An executor computes the work items of one task kind with one model.
"""

import math
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Generic, Protocol, TypeVar

import torch

from model.sequence import BatchStats
from service.items import Done, WorkItem
from service.workers.device_time import timer_of

Item = TypeVar("Item", bound=WorkItem)

RECOVERY_SECONDS = 10.0
"""Time after which a lowered limit of tokens is doubled, if memory has not run out again."""

OLDEST_SHARE = 0.4
"""Share of the work that goes to the candidate with the oldest text, while another candidate has
shorter texts."""


def take_all(waiting: deque[Item]) -> list[Item]:
    items = list(waiting)
    waiting.clear()
    return items


class Backlog(Generic[Item]):
    """Waiting items, the batch in progress, and the parts of failed batches.

    A batch that failed is computed again in halves, until the item at fault is alone.

    Attributes:
        waiting: Items in order of arrival.
        retries: Parts of failed batches; each part is computed by itself.
        running: Items of the batch in progress, by id.
        is_retry: Whether the batch in progress is a part of a failed batch.
        given_up: Ids of items in the batch in progress whose results are no longer wanted.
    """

    def __init__(self) -> None:
        self.waiting: deque[Item] = deque()
        self.retries: deque[list[Item]] = deque()
        self.running: dict[int, Item] = {}
        self.is_retry = False
        self.given_up: set[int] = set()

    def __len__(self) -> int:
        return len(self.waiting) + sum(map(len, self.retries)) + len(self.running)

    def __bool__(self) -> bool:
        """Faster than counting the items."""
        return bool(self.waiting or self.running or self.retries)

    @property
    def oldest(self) -> int:
        """Id of the oldest item; the backlog must not be empty."""
        firsts = [items[0].id for items in (self.waiting, *self.retries) if items]
        return min([*firsts, *self.running])

    def begin(self, choose: Callable[[deque[Item]], list[Item]]) -> list[Item]:
        """Begins the next batch: a part of a failed batch, or waiting items that `choose` takes."""
        self.is_retry = bool(self.retries)
        items = self.retries.popleft() if self.retries else choose(self.waiting)
        self.running = {item.id: item for item in items}
        self.given_up = set()
        return items

    def end(self) -> None:
        self.running, self.given_up, self.is_retry = {}, set(), False

    def abort(self, ids: Collection[int]) -> None:
        """Drops items that wait or will be retried; marks items in progress as given up."""
        if self.waiting:
            self.waiting = deque(item for item in self.waiting if item.id not in ids)
        parts = ([item for item in part if item.id not in ids] for part in self.retries)
        self.retries = deque(part for part in parts if part)
        self.given_up.update(item_id for item_id in ids if item_id in self.running)

    @property
    def is_given_up(self) -> bool:
        return bool(self.running) and len(self.given_up) == len(self.running)

    def isolate(self) -> list[Item]:
        """Ends a batch that failed, and queues its halves.

        Returns the item at fault, if the batch had only this item and it was not given up.
        Otherwise, the list is empty.
        """
        items = [item for item in self.running.values() if item.id not in self.given_up]
        was_alone = len(self.running) == 1
        self.end()
        if was_alone:
            return items
        middle = (len(items) + 1) // 2
        halves = [half for half in (items[:middle], items[middle:]) if half]
        self.retries.extendleft(reversed(halves))
        return []


class TokenBudget:
    """The largest number of tokens of a batch, which is lowered when memory runs out.

    Attributes:
        usual: Limit until memory runs out; None for no limit.
        limit: Lowered limit; None if the usual limit applies.
        failed_tokens: Largest number of tokens of a batch that ran out of memory; 0 if none did. It
            is set back to 0 when the lowered limit is removed.
    """

    def __init__(self, usual: int | None = None) -> None:
        self.usual = usual
        self.limit: int | None = None
        self.failed_tokens = 0
        self.changed = 0.0

    def shrink(self, items: Iterable[Item]) -> None:
        """Lowers the limit to half the tokens of these items, whose batch has run out of memory."""
        tokens = sum(item.num_tokens for item in items)
        self.failed_tokens = max(tokens, self.failed_tokens)
        limit = max(1, tokens // 2)
        self.limit = limit if self.limit is None else min(limit, self.limit)
        self.changed = time.monotonic()

    def take(
        self, waiting: deque[Item], running: Iterable[Item], rows: float = math.inf
    ) -> list[Item]:
        """Takes the oldest waiting items, of at most `rows` rows, that fit beside the running.

        If no item is running, an item that exceeds the limit of tokens is taken alone.
        """
        self._recover()
        limit = min([each for each in (self.usual, self.limit) if each is not None], default=None)
        tokens = 0 if limit is None else sum(item.num_tokens for item in running)
        taken: list[Item] = []
        while waiting and waiting[0].num_rows <= rows:
            if limit is not None and tokens and tokens + waiting[0].num_tokens > limit:
                break
            tokens += waiting[0].num_tokens
            rows -= waiting[0].num_rows
            taken.append(waiting.popleft())
        return taken

    def _recover(self) -> None:
        if self.limit is None or time.monotonic() - self.changed < RECOVERY_SECONDS:
            return
        self.limit, self.changed = 2 * self.limit, time.monotonic()
        if self.limit >= self.failed_tokens:
            self.limit, self.failed_tokens = None, 0


class Candidate(Protocol):
    """Texts whose computation can be continued by one slice; `oldest` is the lowest id."""

    @property
    def level(self) -> int: ...

    @property
    def oldest(self) -> int: ...

    @property
    def cost(self) -> float:
        """Approximate cost of its next slice. All candidates have the same unit."""


Chosen = TypeVar("Chosen", bound=Candidate)


class Turns:
    """Chooses the next slice of work on texts of different lengths: short texts first.

    If only length decided, long texts would never be finished while short texts keep arriving. A
    share of the work therefore goes to the oldest text. A slice is the part of a batch that one
    step computes.

    Attributes:
        debt: Work that OLDEST_SHARE assigns to the oldest text and that is not done yet. It has the
            unit of the costs.
    """

    def __init__(self) -> None:
        self.debt = 0.0

    def choose(self, candidates: Sequence[Chosen]) -> Chosen:
        """Returns the candidate for the next slice, usually the first of the lowest level."""
        shortest = candidates[0]
        if len(candidates) == 1:
            return shortest
        shortest = min(candidates, key=lambda each: each.level)
        oldest = min(candidates, key=lambda each: each.oldest)
        if oldest.level == shortest.level:
            return shortest
        cost = oldest.cost
        if self.debt >= cost:
            self.debt -= cost
            return oldest
        self.debt += shortest.cost * OLDEST_SHARE / (1 - OLDEST_SHARE)
        return shortest


class Executor(ABC, Generic[Item]):
    """Computes the items of one task kind for one model, a step at a time.

    The constructor of a subclass takes the device, and the object that computes: an entry of
    `service.workers.loading.LoadedModel.executables`.

    Attributes:
        noun: Word for an item in the log.
        stats: Model calls since the last `drain_stats`.
        cost: Seconds of the last measured step, which `TimeShare` sets and `Turns` uses as the
            estimate for the next step.
    """

    noun = "item"

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.timer = timer_of(device)
        self.cost = 0.0
        self.stats: list[BatchStats] = []

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def __bool__(self) -> bool: ...

    @property
    @abstractmethod
    def num_running(self) -> int:
        """Number of items in the batch in progress, or in the batch that has just failed."""

    @property
    def level(self) -> int:
        """Length bucket of the shortest items."""
        return 0

    @property
    def oldest(self) -> int:
        """Id of the oldest item, which `Turns` compares."""
        return 0

    @property
    def is_amid_short_texts(self) -> bool:
        return False

    @property
    def num_rows(self) -> int:
        """Number of occupied rows of an in-flight batch, which items can join between its steps."""
        return 0

    @property
    def tokens_per_call(self) -> int:
        """Largest number of tokens that a step of an in-flight batch decodes for each row."""
        return 0

    @property
    def has_stats(self) -> bool:
        return bool(self.stats)

    @abstractmethod
    def add(self, items: Iterable[Item]) -> None: ...

    @abstractmethod
    def abort(self, ids: Collection[int]) -> None: ...

    @abstractmethod
    def step(self, low_latency: bool = False) -> list[Done]:
        """Computes for a few milliseconds, and returns the items that are done.

        Args:
            low_latency: Whether other work waits for the end of the step.

        Raises:
            Exception: The batch failed. The caller must then call `isolate`. If memory has run out,
                the caller calls `shrink` first.
        """

    def shrink(self) -> None:
        """Lowers the number of tokens of later batches, if the executor limits them."""

    @abstractmethod
    def isolate(self) -> list[Item]:
        """Ends a batch that failed. A batch of several items is computed again in parts.

        Returns the item at fault, as `Backlog.isolate` does.
        """

    def drain_stats(self) -> list[BatchStats]:
        stats, self.stats = self.stats, []
        return stats
