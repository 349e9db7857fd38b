"""Computes embeddings and scores: the texts of one model, batch by batch and slice by slice.

A slice is the part of a batch that is computed in one step.

Texts of similar length are computed together, short texts first. If a short text arrives while a
long text is computed, the next slice is usually for the short text. A share of the work goes to the
oldest text, so that long texts are also finished while many short texts arrive.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray

from model.sequence import BatchStats
from service.items import NUM_BUCKETS, Done, EmbeddingItem, batch_tokens, bucket_of
from service.workers.executors.base import Backlog, Executor, TokenBudget, Turns


class Batch(Protocol):
    """A batch of texts whose vectors are computed slice by slice, such as `EmbeddingEncode`."""

    padding_tokens: int

    def advance(self) -> bool:
        """Computes the next slice; returns False if no slice was left."""

    def take_finished(self) -> Mapping[int, NDArray[np.float32]]:
        """Returns the vectors that were finished since the last call, by index of the text."""


BeginBatch = Callable[[Sequence[EmbeddingItem]], Batch]
"""Begins to embed some texts."""


class Bucket:
    """The texts of one length bucket: the waiting texts, and the batch in progress.

    Args:
        level: Index of the bucket; bucket 0 has the shortest texts.
        slice_tokens: Largest number of tokens of a slice.
    """

    def __init__(self, level: int, slice_tokens: int, budget: TokenBudget) -> None:
        self.level = level
        self.slice_tokens = slice_tokens
        self.budget = budget
        self.backlog: Backlog[EmbeddingItem] = Backlog()
        self.batch: Batch | None = None

    @property
    def oldest(self) -> int:
        return self.backlog.oldest

    def choose(self) -> None:
        if not self.backlog.running:
            self.backlog.begin(lambda waiting: self.budget.take(waiting, ()))

    @property
    def cost(self) -> int:
        """Approximate size of the next slice in tokens; chooses a batch if needed."""
        self.choose()
        return min(self.slice_tokens, sum([x.num_tokens for x in self.backlog.running.values()]))

    def end(self) -> None:
        self.batch = None
        self.backlog.end()

    def take(self) -> list[Done]:
        """Returns the vectors of the finished batch that are still wanted."""
        assert self.batch is not None
        finished = self.batch.take_finished()
        return [
            Done(item_id, finished[index].tobytes())
            for index, item_id in enumerate(self.backlog.running)
            if item_id not in self.backlog.given_up
        ]


class EmbeddingExecutor(Executor[EmbeddingItem]):
    """Embeds texts by length bucket; a step computes one slice."""

    noun = "text"
    phase = "embed"

    def __init__(self, begin: BeginBatch, device: torch.device) -> None:
        super().__init__(device)
        self.begin = begin
        tokens = batch_tokens(device.type == "cuda")
        self.budget = TokenBudget(tokens)
        self.buckets = [Bucket(level, tokens, self.budget) for level in range(NUM_BUCKETS)]
        self.current = self.buckets[0]
        self.turns = Turns()

    def __len__(self) -> int:
        return sum([len(bucket.backlog) for bucket in self.buckets])

    def __bool__(self) -> bool:
        return any(bucket.backlog for bucket in self.buckets)

    def _busy(self) -> list[Bucket]:
        return [bucket for bucket in self.buckets if bucket.backlog]

    @property
    def level(self) -> int:
        return self._busy()[0].level

    @property
    def oldest(self) -> int:
        return min(bucket.oldest for bucket in self._busy())

    @property
    def is_amid_short_texts(self) -> bool:
        return self.buckets[0].batch is not None

    @property
    def num_running(self) -> int:
        return len(self.current.backlog.running)

    def add(self, items: Iterable[EmbeddingItem]) -> None:
        for item in items:
            self.buckets[bucket_of(item.num_tokens)].backlog.waiting.append(item)

    def abort(self, ids: Collection[int]) -> None:
        """Drops texts. A batch in progress is computed whole, unless all its texts are dropped."""
        for bucket in self.buckets:
            bucket.backlog.abort(ids)
            if bucket.backlog.is_given_up:
                bucket.end()

    def step(self, low_latency: bool = False) -> list[Done]:
        """Computes one slice. If no slice was left, returns the vectors of the batch's texts."""
        bucket = self.current = self.turns.choose(self._busy())
        bucket.choose()
        items = list(bucket.backlog.running.values())
        if bucket.batch is None:
            bucket.batch = self.begin(items)
        if bucket.batch.advance():
            return []
        done = bucket.take()
        tokens = sum([item.num_tokens for item in items])
        self.stats.append(BatchStats(self.phase, len(items), tokens, bucket.batch.padding_tokens))
        bucket.end()
        return done

    def shrink(self) -> None:
        self.budget.shrink(self.current.backlog.running.values())

    def isolate(self) -> list[EmbeddingItem]:
        self.current.batch = None
        return self.current.backlog.isolate()


class RerankExecutor(EmbeddingExecutor):
    """Scores texts or pairs in the same way."""

    noun = "pair"
    phase = "rerank"
