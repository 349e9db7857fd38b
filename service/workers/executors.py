"""Executors: each computes the work items of one task kind with one model, a step at a time."""

import math
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, Generic, TypeVar

import torch

from model.encoding.capture_pass import CapturePass
from model.encoding.embedding import EmbeddingEncode
from model.engine.engine import Engine
from model.inspection.query import AttentionJob
from model.sequence import BatchStats
from model.sequence import Sequence as SourceSequence
from service.items import (
    ATTENTION,
    EMBED,
    NUM_BUCKETS,
    RERANK,
    TRANSLATE,
    AttentionItem,
    Done,
    EmbeddingItem,
    TranslationItem,
    WorkItem,
    batch_tokens,
    bucket_of,
)
from service.workers.device_time import timer_of

Item = TypeVar("Item", bound=WorkItem)

RECOVERY_SECONDS = 10.0
"""Time after which a lowered limit of tokens is doubled, if memory has not run out again."""

OLDEST_SHARE = 0.4
"""Share of the work that goes to the candidate with the oldest text, while another candidate has
shorter texts."""


class Backlog(Generic[Item]):
    """Waiting items, the batch in progress, and the parts of failed batches.

    A batch that failed is computed again in halves, until the item at fault is alone.
    """

    def __init__(self, budget: "TokenBudget") -> None:
        self.budget = budget
        self.waiting: deque[Item] = deque()  # in order of arrival
        self.retries: deque[list[Item]] = deque()  # parts of failed batches, one a batch
        self.running: dict[int, Item] = {}  # items of the batch in progress, by id
        self.is_retry = False  # whether the batch in progress is a part of a failed batch
        self.given_up: set[int] = set()  # ids in `running` whose results are no longer wanted

    def __bool__(self) -> bool:
        return bool(self.waiting or self.running or self.retries)

    @property
    def oldest(self) -> int:
        """Id of the oldest item; the backlog must not be empty."""
        firsts = [items[0].id for items in (self.waiting, *self.retries) if items]
        return min([*firsts, *self.running])

    def begin(self) -> list[Item]:
        """Begins the next batch: a part of a failed batch, or waiting items that fit the budget."""
        self.is_retry = bool(self.retries)
        items = self.retries.popleft() if self.retries else self.budget.take(self.waiting)
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
    """The largest number of tokens of a batch, which is lowered when memory runs out."""

    def __init__(self, usual: float = math.inf) -> None:
        self.usual = usual  # limit until memory runs out
        self.limit = usual
        self.failed_tokens = 0  # of the largest batch that failed since the limit was usual
        self.changed = 0.0

    def shrink(self, items: Iterable[Item]) -> None:
        """Lowers the limit to half the tokens of these items, whose batch has run out of memory."""
        tokens = sum(item.num_tokens for item in items)
        self.failed_tokens = max(tokens, self.failed_tokens if self.limit < self.usual else 0)
        self.limit, self.changed = min(max(1, tokens // 2), self.limit), time.monotonic()

    def take(
        self, waiting: deque[Item], running: Iterable[Item] = (), rows: float = math.inf
    ) -> list[Item]:
        """Takes the oldest waiting items, of at most `rows` rows, that fit beside the running.

        If no item is running, an item that exceeds the limit of tokens is taken alone.
        """
        if self.limit < self.usual and time.monotonic() - self.changed >= RECOVERY_SECONDS:
            self.limit, self.changed = min(2 * self.limit, self.usual), time.monotonic()
            if self.limit >= self.failed_tokens:
                self.limit = self.usual
        tokens = sum(item.num_tokens for item in running) if self.limit < math.inf else 0
        taken: list[Item] = []
        while waiting and waiting[0].num_rows <= rows:
            if tokens and tokens + waiting[0].num_tokens > self.limit:
                break
            tokens += waiting[0].num_tokens
            rows -= waiting[0].num_rows
            taken.append(waiting.popleft())
        return taken


Candidate = TypeVar("Candidate", bound="Bucket[Any] | Executor[Any, Any]")


class Turns:
    """Chooses the next slice of work: short texts first, but a share goes to the oldest text.

    A candidate has the length bucket of its shortest texts as `level`, and its lowest id as
    `oldest`. Its `cost` is the approximate cost of its next slice, in a unit of all candidates.
    """

    def __init__(self) -> None:
        # Work that OLDEST_SHARE assigns to the oldest text and that is not done yet, in the unit of
        # the costs.
        self.debt = 0.0

    def choose(self, candidates: Sequence[Candidate]) -> Candidate:
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


Queue = TypeVar("Queue", bound=Backlog[Any])


class Executor(ABC, Generic[Item, Queue]):
    """Computes the items of one task kind for one model, a step at a time.

    The constructor of a subclass takes an entry of
    `service.workers.loading.LoadedModel.executables`, which computes, and the device.
    """

    def __init__(self, device: torch.device, backlogs: Sequence[Queue]) -> None:
        self.device = device
        self.backlogs = backlogs
        self.current = backlogs[0]  # its batch is in progress, or has just failed
        self.timer = timer_of(device)
        # Seconds of the last measured step, which `TimeShare` sets and `Turns` uses as the estimate
        # for the next step.
        self.cost = 0.0
        self.stats: list[BatchStats] = []  # model calls since the last `drain_stats`

    def __bool__(self) -> bool:
        return any(self.backlogs)

    @property
    def num_running(self) -> int:
        """Number of items in the batch in progress, or in the batch that has just failed."""
        return len(self.current.running)

    @property
    def level(self) -> int:
        return 0

    @property
    def oldest(self) -> int:
        return 0

    @property
    def is_amid_short_texts(self) -> bool:
        return False

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

        With `low_latency`, other work waits for the end of the step. An error means that the batch
        failed; the caller must then call `isolate`, and before it `shrink` if memory ran out.
        """

    def shrink(self) -> None:
        self.current.budget.shrink(self.current.running.values())

    def isolate(self) -> list[Item]:
        return self.current.isolate()

    def drain_stats(self) -> list[BatchStats]:
        stats, self.stats = self.stats, []
        return stats


class TranslationExecutor(Executor[TranslationItem, Backlog[TranslationItem]]):
    """Decodes items in the batch of an engine; items join at the next step and leave one by one.

    Items that arrive between two steps are encoded together, because encoding each item alone takes
    an eighth longer. While a part of a failed batch is decoded again, no other items enter the
    engine. On a CPU with float32 or native int8, a part that is decoded again gives the same
    tokens. In all other cases, a token may change if two tokens have nearly the same score.
    """

    def __init__(self, engine: Engine, device: torch.device) -> None:
        super().__init__(device, [Backlog(TokenBudget())])
        self.engine = engine
        self.bulk: set[int] = set()
        self.is_search_step = False

    @property
    def has_stats(self) -> bool:
        return bool(self.engine.stats)

    def add(self, items: Iterable[TranslationItem]) -> None:
        for item in items:
            self.current.waiting.append(item)
            if item.is_bulk:
                self.bulk.add(item.id)

    def abort(self, ids: Collection[int]) -> None:
        self.current.abort(ids)
        for item_id in ids:
            if self.current.running.pop(item_id, None) is not None:
                self.engine.abort(item_id)
        self.current.given_up.clear()
        self.bulk.difference_update(ids)

    def step(self, low_latency: bool = False) -> list[Done]:
        backlog = self.current
        searches_first, self.is_search_step = not self.is_search_step, False
        if backlog.is_retry and not backlog.running:
            backlog.end()
        if backlog.retries and not backlog.running:
            self._admit(backlog.begin())
        elif backlog.waiting and not backlog.is_retry:
            items, self.is_search_step = self._next_items(searches_first)
            backlog.running.update((item.id, item) for item in items)
            self._admit(items)
        self.engine.low_latency = low_latency or bool(self.bulk)
        done = []
        for finished in self.engine.step(self.is_search_step):
            if backlog.running.pop(finished.id, None) is not None:
                self.bulk.discard(finished.id)
                done.append(Done(finished.id, finished.hypotheses))
        return done

    def _next_items(self, searches_first: bool) -> tuple[list[TranslationItem], bool]:
        """Takes waiting items, and returns whether they are searches that other items wait for.

        A search is an item that needs log-probabilities, usually because a guard has rejected a
        translation. Its request has then already waited once. Waiting searches, except bulk items,
        are therefore encoded and decoded alone. The next step is for all items, so that no item
        waits for more than one such step.
        """
        waiting, running, free = self.current.waiting, self.current.running, self.engine.free_rows
        budget = self.current.budget
        if searches_first and self.engine.searches_apart:
            searches = deque(
                item for item in waiting if item.options.needs_log_probs and not item.is_bulk
            )
            items = budget.take(searches, running.values(), free)
            if items:
                taken = {item.id for item in items}
                self.current.waiting = deque(item for item in waiting if item.id not in taken)
                return items, True
        return budget.take(waiting, running.values(), free), False

    def _admit(self, items: list[TranslationItem]) -> None:
        self.engine.admit(
            [SourceSequence(item.id, item.source, item.options, item.first_id) for item in items]
        )

    def isolate(self) -> list[TranslationItem]:
        self.engine.clear()
        at_fault = super().isolate()
        self.bulk.difference_update(item.id for item in at_fault)
        return at_fault

    def drain_stats(self) -> list[BatchStats]:
        return self.engine.drain_stats()


class Bucket(Backlog[Item]):
    def __init__(self, level: int, budget: TokenBudget) -> None:
        super().__init__(budget)
        self.level = level  # bucket 0 has the shortest texts
        self.batch: Any = None  # the computation in progress; None before its first slice

    def choose(self) -> None:
        if not self.running:
            self.begin()

    @property
    def cost(self) -> float:
        """Approximate size of the next slice in tokens; chooses a batch if needed."""
        self.choose()
        tokens = sum([item.num_tokens for item in self.running.values()])
        return min(self.budget.usual, tokens)

    def take(self, other: "Bucket[Item]") -> None:
        """Takes the computed batch of another bucket."""
        self.running, self.given_up, self.batch = other.running, other.given_up, other.batch
        other.end()

    def end(self) -> None:
        super().end()
        self.batch = None


class BatchExecutor(Executor[Item, Bucket[Item]]):
    """Computes items of similar length batch by batch; a step computes one slice of a batch.

    `Turns` chooses the batch, and `service.workers.time_share` decides when a slice is computed. A
    GPU may still compute a batch after its last slice. The next batch then begins before the
    results of this batch, which is `unread`, are read.
    """

    def __init__(
        self,
        begin: Callable[[list[Item]], Any],
        device: torch.device,
        num_buckets: int,
        tokens: float,
    ) -> None:
        budget = TokenBudget(tokens)
        self.buckets = [Bucket[Item](n, budget) for n in range(num_buckets)]
        self.unread = Bucket[Item](0, budget)
        super().__init__(device, [*self.buckets, self.unread])
        self.begin = begin
        self.turns = Turns()

    @abstractmethod
    def _finish(self, batch: Any) -> Sequence[Any]:
        """Returns the values of a computed batch in the order of its items."""

    def _busy(self) -> list[Bucket[Item]]:
        return [bucket for bucket in self.backlogs if bucket]

    @property
    def level(self) -> int:
        return self._busy()[0].level

    @property
    def oldest(self) -> int:
        return min(bucket.oldest for bucket in self._busy())

    def add(self, items: Iterable[Item]) -> None:
        for item in items:
            level = bucket_of(item.num_tokens) if len(self.buckets) > 1 else 0
            self.buckets[level].waiting.append(item)

    def abort(self, ids: Collection[int]) -> None:
        """Drops items. A batch in progress is computed whole, unless all its items are dropped."""
        for bucket in self.backlogs:
            bucket.abort(ids)
            if bucket.is_given_up:
                bucket.end()

    def step(self, low_latency: bool = False) -> list[Done]:
        """Computes one slice, and returns the results of batches that the device has computed."""
        done: list[Done] = []
        if busy := [bucket for bucket in self.buckets if bucket]:
            bucket = self.current = self.turns.choose(busy)
            bucket.choose()
            if bucket.batch is None:
                bucket.batch = self.begin(list(bucket.running.values()))
            if not bucket.batch.advance():
                done = self._read()
                self.unread.take(bucket)
        # A step reads one batch. If a second one could not be read, the results would be lost.
        batch = self.unread.batch
        if batch is not None and not done and (batch.is_ready or not any(self.buckets)):
            done = self._read()
        return done

    def _read(self) -> list[Done]:
        """Returns the results of the unread batch, if there is one; waits for the device."""
        if self.unread.batch is None:
            return []
        bucket = self.current = self.unread
        items = list(bucket.running.values())
        found = zip(items, self._finish(bucket.batch), strict=True)
        done = [Done(item.id, value) for item, value in found if item.id not in bucket.given_up]
        tokens = sum([item.num_tokens for item in items])
        self.stats.append(BatchStats(items[0].kind, len(items), tokens, padding_tokens=0))
        bucket.end()
        return done

    def isolate(self) -> list[Item]:
        at_fault = super().isolate()
        self.buckets[0].retries.extend(self.unread.retries)
        self.unread.retries.clear()
        return at_fault


class EmbeddingExecutor(BatchExecutor[EmbeddingItem]):
    """Computes vectors of texts, or scores of pairs."""

    def __init__(
        self, begin: Callable[[Sequence[EmbeddingItem]], EmbeddingEncode], device: torch.device
    ) -> None:
        super().__init__(begin, device, NUM_BUCKETS, batch_tokens(device.type == "cuda"))

    @property
    def is_amid_short_texts(self) -> bool:
        return self.buckets[0].batch is not None

    def _finish(self, batch: EmbeddingEncode) -> list[bytes]:
        finished = batch.take_finished()
        return [finished[index].tobytes() for index in range(len(finished))]


class AttentionExecutor(BatchExecutor[AttentionItem]):
    """Captures the attention of all waiting items together."""

    def __init__(
        self, begin: Callable[[Sequence[AttentionJob]], CapturePass], device: torch.device
    ) -> None:
        super().__init__(lambda items: begin([item.job for item in items]), device, 1, math.inf)

    def _finish(self, batch: CapturePass) -> list[list[Any]]:
        return batch.results()


EXECUTORS: Mapping[str, Callable[[Any, torch.device], Executor[Any, Any]]] = {
    TRANSLATE: TranslationExecutor,
    EMBED: EmbeddingExecutor,
    RERANK: EmbeddingExecutor,
    ATTENTION: AttentionExecutor,
}
"""Makes the executor of a task kind from the object that computes, such as an Engine."""
