"""Limits the tokens of a batch, and lowers the limit when the device runs out of memory."""

import math
import time
from collections import deque
from collections.abc import Iterable
from typing import TypeVar

from service.items.base import WorkItem

Item = TypeVar("Item", bound=WorkItem)

RECOVERY_SECONDS = 10.0
"""Time after which the limit is doubled, if memory has not run out again in this time."""


class TokenBudget:
    """The largest number of tokens of a batch, which is lowered when memory runs out.

    Args:
        usual: Largest number of tokens until memory runs out; None for no limit.

    Attributes:
        limit: Lowered number of tokens; None if the usual limit applies.
        failed_tokens: Largest number of tokens of a batch that ran out of memory; 0 if none did. It
            is set back to 0 when the lowered limit is removed.
    """

    def __init__(self, usual: int | None = None) -> None:
        self.usual = usual
        self.limit: int | None = None
        self.failed_tokens = 0
        self.changed = 0.0

    def shrink(self, items: Iterable[Item]) -> None:
        """Lowers the limit to half the tokens of these items, whose batch has run out of memory.

        A limit that is already lower stays.
        """
        tokens = sum(item.num_tokens for item in items)
        self.failed_tokens = max(tokens, self.failed_tokens)
        limit = max(1, tokens // 2)
        self.limit = limit if self.limit is None else min(limit, self.limit)
        self.changed = time.monotonic()

    def take(
        self, waiting: deque[Item], running: Iterable[Item], rows: float = math.inf
    ) -> list[Item]:
        """Takes the oldest waiting items that fit beside the running items.

        If no item is running, an item that exceeds the limit of tokens is taken alone.

        Args:
            waiting: Items in order of arrival. The items that are taken are removed.
            running: Items of the batch in progress.
            rows: Largest number of rows that the taken items may occupy together.
        """
        self._recover()
        limit = min([each for each in (self.usual, self.limit) if each is not None], default=None)
        tokens = 0 if limit is None else sum(item.num_tokens for item in running)
        taken: list[Item] = []
        while waiting and waiting[0].num_rows <= rows:
            if limit is not None and tokens and tokens + waiting[0].num_tokens > limit:
                break
            tokens += waiting[0].num_tokens
            rows -= waiting[0].num_rows
            taken.append(waiting.popleft())
        return taken

    def _recover(self) -> None:
        """Doubles the limit after RECOVERY_SECONDS.

        If the doubled limit is `failed_tokens` or more, the limit is removed.
        """
        if self.limit is None or time.monotonic() - self.changed < RECOVERY_SECONDS:
            return
        self.limit, self.changed = 2 * self.limit, time.monotonic()
        if self.limit >= self.failed_tokens:
            self.limit, self.failed_tokens = None, 0
