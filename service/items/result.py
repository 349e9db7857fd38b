"""The result of a work item, and the report of a worker about it."""

from dataclasses import dataclass
from typing import Any

from service.ipc.channel import pickle_by_fields


@dataclass(slots=True)
class Result:
    """The result of one work item, with its timings.

    Both times are 0 if the value comes from the cache of results. If the item waited for an equal
    item, `device_seconds` is the time of this wait, and `queue_seconds` is 0. For a remote model,
    `queue_seconds` is the time before the first request to the endpoint. `device_seconds` is the
    time from this request until the translation.

    Attributes:
        value: The value that the item's executor computed; the item's class documents its type.
        queue_seconds: Time from the item's submission until its last dispatch to a worker.
        device_seconds: Time from the last dispatch until the worker's report of the result.
    """

    value: Any
    queue_seconds: float
    device_seconds: float


@dataclass(slots=True)
class Done:
    """A worker's report that it has computed an item.

    Attributes:
        id: Id of the item.
        value: The value of the item's Result.
    """

    id: int
    value: Any


@dataclass(frozen=True, slots=True)
class Failed:
    """A worker's report that an item failed.

    A worker computes a failing batch again in smaller parts, until the failing item is alone. The
    report therefore names only this item.

    Attributes:
        id: Id of the item.
        error: Class name of the error.
        is_out_of_memory: Whether the device ran out of memory.
    """

    id: int
    error: str
    is_out_of_memory: bool


for _cls in (Done, Result):
    pickle_by_fields(_cls)
