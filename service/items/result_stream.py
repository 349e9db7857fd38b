"""The stream of the results of submitted items."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Any

from service.items.result import Result


class ResultStream:
    """Yields the results of submitted items as they finish, each with the index of its item.

    The first error ends the stream at once. To iterate raises a ServiceError if an item was refused
    or failed, or if the deadline passed.

    Attributes:
        total: Number of items.
        left: Number of items without a result.
        is_closed: Whether the stream takes no more results.
    """

    def __init__(self, total: int) -> None:
        self.total = total
        self.left = total
        self.is_closed = not total
        self.finished: list[tuple[int, Result]] = []
        self.error: Exception | None = None
        self.waiter: asyncio.Future[None] | None = None

    def add(self, results: Sequence[tuple[int, Result]]) -> None:
        """Takes results with the indices of their items."""
        if self.is_closed:
            return
        self.finished += results
        self.left -= len(results)
        if not self.left:
            self.close()
        elif self.waiter is not None and not self.waiter.done():
            self.waiter.set_result(None)

    def fail(self, error: Exception) -> None:
        """Ends the stream with an error."""
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
