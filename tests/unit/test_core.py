"""The lease of the core: one admission for all submissions of a request."""

import asyncio
from collections.abc import Iterator

import pytest

from model.sequence import DecodingOptions
from service.core import Core
from service.errors import NotFoundError, OverloadedError, RequestTooLargeError
from service.items import TranslationItem, WorkItem
from service.scheduling.scheduler import Scheduler
from tests.unit.scheduling import (
    FakeWorker,
    core_of,
    deadline,
    lease_of,
    numbers,
    pairs,
    sentences,
    settle,
)


@pytest.fixture
def core(scheduler: Scheduler) -> Iterator[Core]:
    """A core whose admission takes 100 requests of 1000 tokens together."""
    core = core_of(scheduler)
    yield core
    assert (core.admission.requests, core.admission.tokens) == (0, 0)


async def test_lease_counts_until_it_is_released(core: Core, worker: FakeWorker) -> None:
    lease = await core.admit(50)
    assert (core.admission.requests, core.admission.tokens) == (1, 50)
    stream = lease.submit(sentences(3), deadline())
    assert core.admission.tokens == 6  # the estimate is replaced
    worker.finish_all()
    assert numbers(await stream.in_order()) == [2, 3, 4]
    assert (core.admission.requests, core.admission.tokens) == (1, 6)
    for _ in range(2):
        lease.release()
        assert (core.admission.requests, core.admission.tokens) == (0, 0)


async def test_release_closes_all_submissions_and_wakes_their_waiters(
    core: Core, worker: FakeWorker
) -> None:
    lease = lease_of(core)
    streams = [lease.submit(items, deadline()) for items in (sentences(6), pairs(6))]
    waiting = [asyncio.create_task(stream.batch()) for stream in streams]
    await settle()
    assert len(worker.held) == 8
    lease.release()
    assert not worker.held
    assert await asyncio.gather(*waiting) == [[], []]


async def test_later_submissions_are_admitted_with_the_first(
    core: Core, worker: FakeWorker
) -> None:
    """The tokens of the largest submission count."""
    core.admission.max_tokens = 10
    lease = lease_of(core)
    translations = lease.submit(sentences(4), deadline())
    worker.finish_all()
    await translations.in_order()
    assert core.admission.tokens == 8
    attention = lease.submit(pairs(2), deadline())
    assert core.admission.tokens == 8
    more = lease.submit(pairs(5), deadline())
    assert core.admission.tokens == 15
    with pytest.raises(OverloadedError):
        lease_of(core)
    worker.finish_all()
    assert numbers(await attention.in_order()) == [2, 3]
    assert len(await more.in_order()) == 5
    lease.release()


@pytest.mark.parametrize(
    ("items", "max_tokens", "error"),
    [
        (sentences(6), 11, RequestTooLargeError),
        (sentences(6), 12, OverloadedError),
        (sentences(1, model="pt-de"), 100, NotFoundError),
    ],
)
async def test_refused_submission_holds_the_lease_until_its_release(
    items: list[WorkItem], max_tokens: int, error: type[Exception], core: Core, worker: FakeWorker
) -> None:
    core.admission.max_tokens = max_tokens
    other, lease = lease_of(core), lease_of(core)
    with pytest.raises(error):
        lease.submit(items, deadline())
    assert core.admission.requests == 2
    assert not worker.given
    lease.release()
    assert (core.admission.requests, core.admission.tokens) == (1, 1)
    other.release()


async def test_first_of_several_submissions_counts_all_their_tokens(
    core: Core, worker: FakeWorker
) -> None:
    lease = lease_of(core)
    lease.submit(sentences(1), deadline(), total_tokens=10)
    assert core.admission.tokens == 10
    lease.submit(sentences(1), deadline(), total_tokens=10)
    assert core.admission.tokens == 10
    lease.release()
    assert core.admission.tokens == 0


async def test_item_of_two_legs_counts_twice(core: Core, worker: FakeWorker) -> None:
    item = TranslationItem("en-pt", [5, 0], DecodingOptions(), num_legs=2)
    lease = lease_of(core)
    lease.submit([item], deadline())
    assert core.admission.tokens == 4
    lease.release()
    assert not worker.held
