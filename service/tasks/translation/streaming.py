"""Translates the sentences of a request, a limited number at a time; yields them in order."""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Callable, Coroutine, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, TypeVar

from service.errors import DeadlineExceededError, too_late
from service.models.served import Direction
from service.tasks.alignment.alignment import Alignment
from service.tasks.translation.guards import GuardWarning
from service.text.detection import Detection

T = TypeVar("T")

AHEAD_PER_TAKEN = 4
"""Number by which the limit on open sentences grows with each sentence that the reader takes.

A sentence is open from the start of its translation until the reader takes it. The limit is 1 at
first, because sentences that begin together delay each other. They also delay the first sentences
of other streams.
"""

MAX_AHEAD = 256
"""Largest limit on open sentences, however many sentences the reader has taken.

If the reader stops, at most MAX_AHEAD sentences are translated in vain. The two workers of a small
machine together decode 128 sentences at once. The limit is above 128, so that one stream can keep
both workers busy.
"""


@dataclass(frozen=True, slots=True)
class TranslatedSentence:
    """One translated sentence of a request.

    Attributes:
        number: Index of its text in the request.
        index: Index of the sentence in its text.
        text: Translation with the separators around it. The sentences of a text, joined, are the
            translation of the text.
        route: Models that translated the sentence, in order.
        detected: Detected source language of the text; None if the request names a source language.
        alignments: Alignments of the sentence, in code points of the whole text and of its whole
            translation. The alignments of all sentences, joined, are the alignments of the text.
            None if the request does not ask for alignments.
        warnings: The guards that reject the translation. A guard is a check for wrong translations.
    """

    number: int
    index: int
    text: str
    route: tuple[Direction, ...]
    detected: Detection | None
    alignments: list[Alignment] | None
    warnings: list[GuardWarning]


async def in_order(
    works: Sequence[Callable[[], Coroutine[Any, Any, T]]],
) -> AsyncGenerator[T, None]:
    """Runs coroutine functions side by side, and yields their results in order.

    Each result that the reader takes allows more coroutines to begin. While the reader takes no
    result, no coroutine begins. When the reader closes the iterator, unfinished coroutines are
    cancelled.
    """
    begun: deque[asyncio.Task[T]] = deque()
    waiting = iter(works)
    try:
        for taken in range(len(works)):
            ahead = min(MAX_AHEAD, 1 + AHEAD_PER_TAKEN * taken)
            for work in islice(waiting, max(0, ahead - len(begun))):
                begun.append(asyncio.create_task(work()))
            try:
                result = await begun.popleft()
            except DeadlineExceededError:
                raise too_late(taken, len(works)) from None
            yield result
    finally:
        for task in begun:
            task.cancel()
        await asyncio.gather(*begun, return_exceptions=True)
