"""Yields the results of the items that one call of `Scheduler.submit` has queued."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Protocol

from service.errors import DeadlineExceededError, too_late
from service.items.result import Result
from service.items.result_stream import ResultStream
from service.scheduling.forecast.margin import Prediction
from service.scheduling.job import Job


class Listener(Protocol):
    """A second receiver of a submission's results, beside the code that reads the stream."""

    def finish(self, index: int, result: Result) -> None:
        """Takes the result of the item with the given index."""

    def end(self, error: Exception | None) -> None:
        """Handles the early end of the submission; `error` is None if its request was cancelled."""


class Submission(ResultStream):
    """A stream of results, one for each item that one call of `Scheduler.submit` has queued.

    If the stream ends early, it cancels the unfinished items.

    Args:
        total: Number of items.
        cancel: Called with all jobs if the stream ends while some jobs are unfinished.

    Attributes:
        prediction: Predicted time of all items; None if no time was predicted.
    """

    def __init__(self, total: int, cancel: Callable[[Sequence[Job]], None]) -> None:
        super().__init__(total)
        self.cancel = cancel
        self.jobs: list[Job] = []
        self.timer: asyncio.TimerHandle | None = None
        self.listener: Listener | None = None
        self.prediction: Prediction | None = None

    def start(self, jobs: list[Job], seconds: float) -> None:
        """Begins to wait for jobs; the stream fails if a job is unfinished after `seconds`."""
        self.jobs = jobs
        self.timer = asyncio.get_running_loop().call_later(max(0.0, seconds), self._expire)

    def finish(self, index: int, result: Result) -> None:
        """Takes the result of the item with the given index."""
        if self.listener is not None and not self.is_closed:
            self.listener.finish(index, result)
        self.add([(index, result)])

    def close(self) -> None:
        """Ends the stream, and cancels the unfinished items."""
        if self.is_closed:
            return
        super().close()
        if self.timer is not None:
            self.timer.cancel()
        # Jobs and their submission refer to each other. This cycle is broken here, so that Python
        # frees these objects without garbage collection.
        jobs, self.jobs = self.jobs, []
        listener, self.listener = self.listener, None
        is_late = isinstance(self.error, DeadlineExceededError)
        if self.prediction is not None and (is_late or not self.left):
            self.prediction.end(is_late)
        if self.left:
            self._give_up(jobs)
            if listener is not None:
                listener.end(self.error)

    def _give_up(self, jobs: Sequence[Job]) -> None:
        """Cancels the jobs of a stream that has ended early."""
        self.cancel(jobs)

    def _expire(self) -> None:
        self.fail(too_late(self.total - self.left, self.total))
