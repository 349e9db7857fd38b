"""The results of the items that one call of `Scheduler.submit` has taken."""

import asyncio
from collections.abc import Callable, Sequence

from service.errors import DeadlineExceededError, too_late
from service.items import ResultStream, WorkItem
from service.scheduling.forecast import Prediction


class Submission(ResultStream):
    """A stream of results. If it ends early, it withdraws the unfinished items.

    Args:
        seconds: Time until the stream fails if an item is unfinished.
        withdraw: Called with all items if the stream ends while some items are unfinished.

    Attributes:
        prediction: Predicted time of all items; None if no time was predicted.
        on_end: Called when the stream ends, with its error if there is one.
    """

    def __init__(
        self,
        items: Sequence[WorkItem],
        seconds: float,
        withdraw: Callable[[Sequence[WorkItem]], None],
    ) -> None:
        super().__init__(len(items))
        self.items = items
        self.withdraw = withdraw
        self.timer = asyncio.get_running_loop().call_later(max(0.0, seconds), self._expire)
        self.prediction: Prediction | None = None
        self.on_end: Callable[[Exception | None], None] | None = None

    def close(self) -> None:
        if self.is_closed:
            return
        super().close()
        self.timer.cancel()
        # Items and their submission refer to each other. This cycle is broken here, so that Python
        # frees these objects without garbage collection.
        items, self.items = self.items, ()
        is_late = isinstance(self.error, DeadlineExceededError)
        if self.prediction is not None and (is_late or not self.left):
            self.prediction.end(is_late)
        if self.left:
            self.withdraw(items)
        if self.on_end is not None:
            self.on_end(self.error)

    def _expire(self) -> None:
        self.fail(too_late(self.total - self.left, self.total))
