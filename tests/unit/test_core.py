"""The lease of the core: one admission for all submissions of a request."""

from collections.abc import Iterator

import pytest

from model.sequence import DecodingOptions
from service.core import Core
from service.errors import OverloadedError
from service.items import TranslationItem
from service.scheduling.scheduler import Scheduler
from tests.unit.scheduling import FakeWorker, core_of, deadline, lease_of, numbers, pairs, sentences


@pytest.fixture
def core(scheduler: Scheduler) -> Iterator[Core]:
    """A core whose admission takes 100 requests of 1000 tokens together."""
    core = core_of(scheduler)
    yield core
    assert (core.admission.requests, core.admission.tokens) == (0, 0)


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
