"""The items of one `submit`, and their results as they finish."""

import asyncio
from collections.abc import Callable, Sequence

from service.errors import too_late
from service.items.result import Result, ResultStream
from service.scheduling.job import Job


class Submission(ResultStream):
    """Yields the results of submitted items as they finish, each with its index.

    The first error ends the iteration at once, and the items that are left are cancelled.

    Args:
        total: Number of items.
        cancel: Called with the jobs that are left when it ends before they have.
    """

    def __init__(self, total: int, cancel: Callable[[Sequence[Job]], None]) -> None:
        self.total = total
        self.cancel = cancel
        self.jobs: list[Job] = []
        self.left = total
        self.finished: list[tuple[int, Result]] = []
        self.error: Exception | None = None
        self.waiter: asyncio.Future[None] | None = None
        self.timer: asyncio.TimerHandle | None = None
        self.is_closed = False

    def start(self, jobs: list[Job], seconds: float) -> None:
        """Begins to wait for jobs, for at most `seconds`."""
        self.jobs = jobs
        self.timer = asyncio.get_running_loop().call_later(max(0.0, seconds), self._expire)

    def finish(self, index: int, result: Result) -> None:
        """Takes the result of an item."""
        if self.is_closed:
            return
        self.finished.append((index, result))
        self.left -= 1
        if self.left:
            self._wake()
        else:
            self.close()

    def fail(self, error: Exception) -> None:
        """Takes the error of an item, and cancels the items that are left."""
        if self.is_closed or self.error is not None:
            return
        self.error = error
        self.close()

    def close(self) -> None:
        """Cancels the items that are left; the caller wants no more results."""
        if self.is_closed:
            return
        self._end()
        if self.left:
            self.cancel(self.jobs)
        self._wake()

    def _end(self) -> None:
        self.is_closed = True
        if self.timer is not None:
            self.timer.cancel()

    def _expire(self) -> None:
        self.fail(too_late(self.total - self.left, self.total))

    def _wake(self) -> None:
        if self.waiter is not None and not self.waiter.done():
            self.waiter.set_result(None)

    async def batch(self) -> list[tuple[int, Result]]:
        """Waits for results and returns all that have finished; an empty list after the last.

        Raises:
            ServiceError: An item failed, or the deadline passed.
        """
        while not self.finished:
            if self.error is not None:
                raise self.error
            if not self.left or self.is_closed:
                return []
            self.waiter = asyncio.get_running_loop().create_future()
            await self.waiter
        if self.error is not None:
            raise self.error
        finished, self.finished = self.finished, []
        return finished
