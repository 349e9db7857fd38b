"""The work item: one unit of work, which is scheduled, computed, retried and aborted separately."""

from abc import ABC, abstractmethod
from typing import Any, ClassVar, Protocol

from service.items.result import Result


class Receiver(Protocol):
    """Receives the results of the items of one submission."""

    is_closed: bool

    def finish(self, index: int, result: Result) -> None: ...

    def fail(self, error: Exception) -> None:
        """Takes the error of an item; the other items of the submission are cancelled."""


class WorkItem(ABC):
    """One unit of work for a worker, with its state between submission and result.

    Each task kind has a subclass: a dataclass, whose fields other processes receive. The attributes
    from `queue` on belong to the scheduler, which sets them. They stay in its process.

    Attributes:
        kind: Name of the task kind, a row of `service/tasks/table.py`.
        model: Served name of the model that computes the item.
        is_bulk: Whether the item waits in the bulk lane. This is the lane for documents and for
            requests with many items.
        id: Number that the scheduler assigns, unique among all items; 0 until then.
        num_tokens: Number of tokens that the model reads.
        num_rows: Number of rows that the item takes in a batch.
        num_legs: Number of models that must still run, `model` included: 2 if a second model
            continues from a pivot language to the target language, else 1.
        key: Equal for items that have the same result; None if the kind does not share results.
        is_small: Whether the result is small enough to be cached.
        queue: The `service.scheduling.lanes.Queue` in which the item has waited; None before.
        shared: The key, and the lane, of an item that equal items may share; else None.
        receiver: The submission that the item belongs to.
        index: Index of the item in its submission.
        client: Identity of the client: a hash of its API key, or its address.
        deadline: Time by time.perf_counter at which the submission fails.
        created: Time of the submission, by time.perf_counter.
        dispatched: Time of the last dispatch to a worker, by time.perf_counter.
        attempts: Number of dispatches.
        bucket: Length bucket in which the item waits; 0 if the kind has only one.
        cost: Share of a worker's capacity that the item takes, in the unit of the kind's policy.
        tokens: The value of `num_tokens`.
        rows: The value of `num_rows`.
        work: Number of row-tokens, which is tokens times rows.
        load: Share of the item in the occupancy of its queue: rows, or tokens.
        occupancy: Occupancy of the queue right after the last dispatch.
    """

    __slots__ = (
        "attempts",
        "bucket",
        "client",
        "cost",
        "created",
        "deadline",
        "dispatched",
        "id",
        "index",
        "load",
        "occupancy",
        "queue",
        "receiver",
        "rows",
        "shared",
        "tokens",
        "work",
    )

    kind: ClassVar[str]
    model: str
    is_bulk: bool
    id: int
    queue: Any
    shared: tuple[tuple[object, ...], bool] | None
    receiver: Receiver
    index: int
    client: str
    deadline: float
    created: float
    dispatched: float
    attempts: int
    bucket: int
    cost: int
    tokens: int
    rows: int
    work: int
    load: int
    occupancy: int

    @property
    @abstractmethod
    def num_tokens(self) -> int: ...

    @property
    def num_rows(self) -> int:
        return 1

    @property
    def num_legs(self) -> int:
        return 1

    @property
    def key(self) -> tuple[object, ...] | None:
        return None

    @property
    def is_small(self) -> bool:
        return True
