"""Sentences that are translated side by side and come in order."""

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import aclosing
from functools import partial

from service.tasks.translation.translator import AHEAD_PER_TAKEN, MAX_AHEAD, in_order
from tests.unit.scheduling import settle

SEVERAL = 600


class Works:
    """Coroutine functions of a test; each waits for its own event and returns its number."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.may_end = [asyncio.Event() for _ in range(count)]
        self.begun: list[int] = []
        self.cancelled: list[int] = []
        self.errors: dict[int, Exception] = {}

    async def work(self, number: int) -> int:
        self.begun.append(number)
        try:
            await self.may_end[number].wait()
        except asyncio.CancelledError:
            self.cancelled.append(number)
            raise
        if number in self.errors:
            raise self.errors[number]
        return number

    @property
    def all(self) -> list[Callable[[], Coroutine[None, None, int]]]:
        return [partial(self.work, number) for number in range(self.count)]


async def test_reader_that_stops_lets_no_more_begin() -> None:
    works = Works(SEVERAL)
    for event in works.may_end:
        event.set()
    async with aclosing(in_order(works.all)) as results:
        for taken in range(100):
            assert await anext(results) == taken
            await settle()
            assert len(works.begun) <= taken + 1 + min(MAX_AHEAD, AHEAD_PER_TAKEN * taken)
        assert len(works.begun) == 99 + MAX_AHEAD
        await settle()
        assert len(works.begun) == 99 + MAX_AHEAD


async def test_reader_that_goes_cancels_the_rest() -> None:
    works = Works(SEVERAL)
    for event in works.may_end[:10]:
        event.set()
    async with aclosing(in_order(works.all)) as results:
        for _ in range(10):
            await anext(results)
        await settle()
    assert works.cancelled == works.begun[10:]
    assert works.cancelled
