"""The result of a work item, and the report of a worker about it."""

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

from service.ipc.channel import pickle_by_fields


@dataclass(slots=True)
class Result:
    """The result of one work item, with its timings.

    Attributes:
        value: The value that the item's executor computed; each item class says of what type.
        queue_seconds: Time from admission until a worker received the item.
        device_seconds: Time from then until the worker reported the result.
    """

    value: Any
    queue_seconds: float
    device_seconds: float


@dataclass(slots=True)
class Done:
    """A worker's report that it has computed an item.

    Attributes:
        id: Id of the item.
        value: The value of its Result.
    """

    id: int
    value: Any


@dataclass(frozen=True, slots=True)
class Failed:
    """A worker's report that an item failed although it was computed alone.

    Attributes:
        id: Id of the item.
        error: Class name of the error.
        is_out_of_memory: Whether the device ran out of memory.
    """

    id: int
    error: str
    is_out_of_memory: bool


class ResultStream(ABC):
    """Results of submitted items as they finish, each with the index of its item."""

    @abstractmethod
    async def batch(self) -> list[tuple[int, Result]]:
        """Waits for results and returns all that have finished; an empty list after the last.

        Raises:
            ServiceError: An item failed, or the deadline passed.
        """

    async def __aiter__(self) -> AsyncIterator[tuple[int, Result]]:
        """Yields each index and result.

        Raises:
            ServiceError: An item failed, or the deadline passed.
        """
        while found := await self.batch():
            for each in found:
                yield each

    async def in_order(self, count: int) -> list[Result]:
        """Waits for all `count` results and returns them in the order of their items.

        Raises:
            ServiceError: An item failed, or the deadline passed.
        """
        results: list[Any] = [None] * count
        while found := await self.batch():
            for index, result in found:
                results[index] = result
        return results


for _cls in (Done, Result):
    pickle_by_fields(_cls)
