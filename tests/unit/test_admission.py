"""Admission: the limits on requests and tokens, leases, and the time until there is room."""

from collections.abc import Iterator

import pytest

from model.sequence import DecodingOptions
from service.core import Core
from service.errors import OverloadedError, RequestTooLargeError
from service.items import TranslationItem
from service.scheduling import admission as admission_module
from service.scheduling.admission import MAX_RETRY_SECONDS, Admission, Throughput
from service.scheduling.scheduler import Scheduler
from tests.unit.scheduling import FakeWorker, core_of, deadline, lease_of, numbers, pairs, sentences
from tests.unit.worker_bench import Clock


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(admission_module, "time", clock)
    return clock


def test_estimate_is_replaced_by_the_counted_number() -> None:
    admission = Admission(2, 100)
    admission.admit(80)
    admission.adjust(80, 10)
    assert admission.tokens == 10
    admission.admit(60)
    with pytest.raises(OverloadedError, match="with 35 more"):
        admission.adjust(60, 95)
    assert admission.tokens == 70
    with pytest.raises(RequestTooLargeError, match="about 101 tokens"):
        admission.adjust(60, 101)
    admission.adjust(60, 90)
    assert admission.tokens == 100
    admission.release(10)
    admission.release(90)
    assert admission.tokens == 0


def test_time_until_a_retry_follows_the_throughput(clock: Clock) -> None:
    throughput = Throughput()
    assert throughput.seconds_for(10_000) == 1  # nothing has finished yet
    for _ in range(5):
        throughput.add(100)
        clock.now += 1
    assert throughput.seconds_for(1000) == 10  # 100 a second
    assert throughput.seconds_for(1001) == 11
    assert throughput.seconds_for(0) == 1
    assert throughput.seconds_for(10**9) == MAX_RETRY_SECONDS


def test_throughput_before_the_window_is_forgotten(clock: Clock) -> None:
    """Guards a fault: after an idle hour, one old event made refused clients wait for a minute."""
    throughput = Throughput()
    throughput.add(1000)
    clock.now += 3600
    assert throughput.seconds_for(1000) == 1
    assert throughput.tokens == 0


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
