"""Work items: the units of work that a request is split into, that workers compute, and results.

Each item is scheduled, computed, retried and aborted separately. A task kind has a class of items;
the table of kinds is `service/tasks/table.py`.
"""

import asyncio
from abc import ABC, abstractmethod
from bisect import bisect_left
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, fields
from operator import attrgetter
from typing import Any, ClassVar

from model.inspection.query import AttentionJob
from model.sequence import DecodingOptions, Hypothesis
from service.ipc.channel import pickle_by_fields

TRANSLATE, EMBED, RERANK, ATTENTION = "translate", "embed", "rerank", "attention"
"""Names of the task kinds."""

BUCKET_TOKENS = (64, 256)
"""Largest number of tokens of a text in each length bucket; one more bucket takes longer texts.

A batch takes texts of one bucket, up to a number of tokens that depends on the device. Full batches
of the first bucket therefore cost about the same, whatever the lengths of their texts are.
"""

NUM_BUCKETS = len(BUCKET_TOKENS) + 1

CPU_BATCH_TOKENS = 256
"""Largest number of tokens of a batch on a CPU, unless the batch is one longer text. A larger batch
hardly needs less time per token, but texts that arrive later wait longer. A smaller batch needs
more time per token."""

GPU_BATCH_TOKENS = 16_384
"""Largest number of tokens of a batch on a GPU. A GPU computes 256 tokens in less time than the
launch of the kernels takes. With batches of 8,192 tokens, an H200 embedded 64,000 short texts
a second; with 16,384 tokens, 93,000. A larger batch delays texts that arrive later."""

CAPACITY_BATCHES = 2
"""Number of batches that a worker receives in advance, for each model and length bucket. Further
texts wait in the scheduler, which decides their order."""

CAPACITY_TOKENS = (CAPACITY_BATCHES * CPU_BATCH_TOKENS, CAPACITY_BATCHES * GPU_BATCH_TOKENS)
"""Number of tokens of the batches that a worker receives in advance: on a CPU, and on a GPU."""


def bucket_of(num_tokens: int) -> int:
    return bisect_left(BUCKET_TOKENS, num_tokens)


def batch_tokens(is_on_gpu: bool) -> int:
    return GPU_BATCH_TOKENS if is_on_gpu else CPU_BATCH_TOKENS


@dataclass(slots=True)
class Result:
    """The result of one work item, with its timings.

    Both times are 0 if the value comes from the cache of results. If the item waited for an equal
    item, `device_seconds` is the time of this wait, and `queue_seconds` is 0. For a remote model,
    `queue_seconds` is the time before the first request to the endpoint. `device_seconds` is the
    time from this request until the translation.
    """

    value: Any  # computed by the item's executor; the item's class documents its type
    queue_seconds: float  # from the item's submission until its last dispatch to a worker
    device_seconds: float  # from the last dispatch until the worker's report of the result
    substitute: str = ""  # model of this server that translated in place of a remote one


@dataclass(slots=True)
class Done:
    """A worker's report that it has computed an item; `value` is the value of its Result."""

    id: int
    value: Any


@dataclass(frozen=True, slots=True)
class Failed:
    """A worker's report that an item failed.

    A worker computes a failing batch again in smaller parts, until the failing item is alone. The
    report therefore names only this item.
    """

    id: int
    error: str  # name of the error's class
    is_out_of_memory: bool


class WorkItem(ABC):
    """One unit of work for a worker, with its state between submission and result.

    Each task kind has a subclass: a dataclass, whose fields other processes receive. The attributes
    from `queue` on belong to the scheduler, which sets them. They stay in its process.
    """

    __slots__ = (
        *("attempts", "bucket", "client", "cost", "created", "deadline", "dispatched", "id"),
        *("index", "load", "occupancy", "queue", "receiver", "rows", "shared", "tokens", "work"),
    )

    kind: ClassVar[str]
    model: str  # served name of the model that computes the item
    # Whether the item waits in the bulk lane: documents, and requests with many items.
    is_bulk: bool
    id: int  # number that the scheduler assigns, unique among all items; 0 until then
    queue: Any  # the `service.scheduling.lanes.Queue` in which the item has waited; None before
    # The key, and the lane, of an item that equal items may share; else None.
    shared: tuple[tuple[object, ...], bool] | None
    receiver: "ResultStream"  # the submission that the item belongs to
    index: int  # in its submission
    client: str  # identity of the client: a hash of its API key, or its address
    deadline: float  # of the submission; this time and the next two by time.perf_counter
    created: float  # time of the submission
    dispatched: float  # time of the last dispatch to a worker
    attempts: int  # number of dispatches
    bucket: int  # length bucket in which the item waits; 0 if the kind has only one
    cost: int  # share of a worker's capacity, in the unit of the kind's policy
    tokens: int  # the value of `num_tokens`
    rows: int  # the value of `num_rows`
    work: int  # row-tokens: tokens times rows
    load: int  # share of the item in the occupancy of its queue: rows, or tokens
    occupancy: int  # of the queue right after the last dispatch

    @property
    @abstractmethod
    def num_tokens(self) -> int:
        """Number of tokens that the model reads."""

    @property
    def num_rows(self) -> int:
        """Number of rows that the item takes in a batch."""
        return 1

    @property
    def num_legs(self) -> int:
        """Number of models that must still run, `model` included."""
        return 1

    @property
    def key(self) -> tuple[object, ...] | None:
        """Equal for items that have the same result; None if the kind does not share results."""
        return None

    @property
    def is_small(self) -> bool:
        """Whether the result is small enough to be cached."""
        return True


option_values = attrgetter(*[each.name for each in fields(DecodingOptions)])
"""Returns the values of all options as a tuple, which is hashed faster than DecodingOptions."""


@dataclass(slots=True, eq=False)
class TranslationItem(WorkItem):
    """A sentence to translate; the value of its result is a list of `Hypothesis`, best first."""

    kind: ClassVar[str] = TRANSLATE

    model: str
    source: list[int]  # token ids, EOS included
    options: DecodingOptions
    first_id: int | None = None  # of the target; None if the model chooses it
    is_bulk: bool = False
    num_legs: int = 1  # 2 if another model then translates the result
    id: int = 0

    @property
    def num_tokens(self) -> int:
        return len(self.source)

    @property
    def num_rows(self) -> int:
        return self.options.beam_size

    @property
    def key(self) -> tuple[object, ...]:
        return self.model, self.first_id, option_values(self.options), tuple(self.source)

    @property
    def is_small(self) -> bool:
        return not self.options.return_attention


@dataclass(slots=True)
class EmbeddingItem(WorkItem):
    """A text to embed.

    The value of the item's result is the vector of the text, or the vectors of its tokens. The
    vectors are bytes of float32 numbers, one vector after the other. Pickling 384 floats as a list
    would take forty times as long as pickling their bytes.
    """

    kind: ClassVar[str] = EMBED

    model: str
    ids: list[int]  # of the tokens, special tokens included
    is_per_token: bool = False  # a vector for each token, not one for the text
    # Without the model's final Normalize module, which scales vectors to length 1.
    is_raw: bool = False
    unpooled: int = 0  # number of first tokens that are left out of the pooling
    is_query: bool = False  # whether the model's modules for queries compute it
    is_bulk: bool = False
    id: int = 0

    @property
    def num_tokens(self) -> int:
        return len(self.ids)


class RerankItem(EmbeddingItem):
    """A pair to score; the value of its result is the score, as the 4 bytes of a float32.

    If the model distinguishes segments, the ids of the second segment are marked: the vocabulary
    size is added to each id.
    """

    __slots__ = ()
    kind: ClassVar[str] = RERANK


@dataclass(slots=True)
class AttentionItem(WorkItem):
    """A sentence pair, or one text, whose attention is captured.

    The value of the item's result is a list with one element for each query of the job: a
    `model.inspection.query.AttentionMaps` or a `model.inspection.results.AttentionTrace`.
    """

    kind: ClassVar[str] = ATTENTION

    model: str
    job: AttentionJob
    is_bulk: bool = False
    id: int = 0

    @property
    def num_tokens(self) -> int:
        return len(self.job.source) + len(self.job.target)


class ResultStream:
    """Yields the results of submitted items as they finish, each with the index of its item.

    The first error ends the stream at once. To iterate raises a ServiceError if an item was refused
    or failed, or if the deadline passed.
    """

    def __init__(self, total: int) -> None:
        self.total = total
        self.left = total  # items without a result
        self.is_closed = not total  # whether the stream takes no more results
        self.finished: list[tuple[int, Result]] = []
        self.error: Exception | None = None
        self.waiter: asyncio.Future[None] | None = None

    def add(self, results: Sequence[tuple[int, Result]]) -> None:
        if self.is_closed:
            return
        self.finished += results
        self.left -= len(results)
        if not self.left:
            self.close()
        elif self.waiter is not None and not self.waiter.done():
            self.waiter.set_result(None)

    def fail(self, error: Exception) -> None:
        if not self.is_closed:
            self.error = error
            self.close()

    def close(self) -> None:
        """Ends the stream when all results have arrived, an item failed, or the reader stopped."""
        self.is_closed = True
        if self.waiter is not None and not self.waiter.done():
            self.waiter.set_result(None)

    async def batch(self) -> list[tuple[int, Result]]:
        """Waits for new results and returns them; an empty list marks the end of the stream."""
        while not (self.finished or self.is_closed):
            self.waiter = asyncio.get_running_loop().create_future()
            await self.waiter
        if self.error is not None:
            raise self.error
        finished, self.finished = self.finished, []
        return finished

    async def __aiter__(self) -> AsyncIterator[tuple[int, Result]]:
        while found := await self.batch():
            for each in found:
                yield each

    async def in_order(self) -> list[Result]:
        """Waits for all results and returns them in the order of their items."""
        while not self.is_closed:
            self.waiter = asyncio.get_running_loop().create_future()
            await self.waiter
        if self.error is not None:
            raise self.error
        results: list[Any] = [None] * self.total
        for index, result in self.finished:
            results[index] = result
        return results


for _cls in (
    *(DecodingOptions, Hypothesis, Result, Done),
    *(TranslationItem, EmbeddingItem, RerankItem, AttentionItem),
):
    pickle_by_fields(_cls)
