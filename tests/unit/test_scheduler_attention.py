"""Attention items and texts in the scheduler: they take no rows, and are settled once."""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import pytest

from service.errors import DeadlineExceededError, InternalError, UnavailableError
from service.items.attention import ATTENTION
from service.items.base import WorkItem
from service.items.length_buckets import capacity_tokens
from service.items.result import Done
from service.items.translation import TRANSLATE
from service.scheduling.lanes import BULK_SHARE, LANES
from service.scheduling.policies import MAX_SLOTS
from service.scheduling.scheduler import Scheduler
from service.workers.messages import Report
from tests.unit.scheduling import (
    FOREVER,
    FakeWorker,
    assert_idle,
    begin,
    numbers,
    pairs,
    run,
    sentences,
    settle,
    texts,
)


@dataclass(frozen=True)
class Kind:
    """A kind of items that take no rows.

    Attributes:
        make: Returns some items, like `pairs`.
        labels: Labels of the kind and its model in the metrics.
        tokens: Number of tokens of an item.
        most: Largest number of items that a worker holds.
    """

    make: Callable[..., list[WorkItem]]
    labels: dict[str, str]
    tokens: int
    most: int

    def sample(self, scheduler: Scheduler, name: str, **labels: str) -> float | None:
        labels = {**self.labels, **labels}
        return scheduler.metrics.registry.get_sample_value(f"regard_{name}", labels)


KINDS = [
    Kind(pairs, {"task": "attention", "model": "en-pt"}, 3, MAX_SLOTS),
    Kind(
        partial(texts, length=64),
        {"task": "embed", "model": "tiny"},
        64,
        capacity_tokens(is_on_gpu=False) // 64,
    ),
]


@pytest.fixture(params=KINDS, ids=lambda kind: kind.labels["task"])
def kind(request: pytest.FixtureRequest) -> Kind:
    found = request.param
    assert isinstance(found, Kind)
    return found


def test_results_are_returned_in_the_order_of_the_items(kind: Kind) -> None:
    async def test(scheduler: Scheduler) -> None:
        worker = FakeWorker(scheduler)
        request = begin(scheduler, kind.make(3))
        await settle()
        worker.finish(*reversed(worker.given))
        results = await request
        assert numbers(results) == [2, 3, 4]
        assert all(result.queue_seconds >= 0 and result.device_seconds > 0 for result in results)
        assert_idle(scheduler)

    run(test)


def test_submission_without_items_has_no_results() -> None:
    async def test(scheduler: Scheduler) -> None:
        FakeWorker(scheduler)
        submission = scheduler.submit([], time.perf_counter() + FOREVER)
        assert await submission.in_order() == []
        assert [each async for each in submission] == []
        submission.close()

    run(test)


def test_worker_holds_few_items_at_once(kind: Kind) -> None:
    async def test(scheduler: Scheduler) -> None:
        worker = FakeWorker(scheduler)
        request = begin(scheduler, kind.make(kind.most + 3))
        await settle()
        assert len(worker.held) == kind.most
        assert [
            kind.sample(scheduler, f"queue_{each}", lane="interactive")
            for each in ("depth", "tokens")
        ] == [3, 3 * kind.tokens]
        worker.finish(2)
        assert worker.given[-1] == kind.most + 1  # the oldest waiting item
        worker.finish_all()
        assert numbers(await request) == list(range(2, kind.most + 5))
        assert_idle(scheduler)

    run(test)


def test_items_of_all_models_share_the_slots() -> None:
    async def test(scheduler: Scheduler) -> None:
        worker = FakeWorker(scheduler)
        request = begin(scheduler, [*pairs(MAX_SLOTS), *pairs(2, "pt-en", first=50)])
        await settle()
        assert len(worker.held) == MAX_SLOTS
        worker.finish_all()
        assert numbers(await request)[-2:] == [50, 51]
        assert worker.received[MAX_SLOTS + 1].model == "pt-en"
        assert_idle(scheduler)

    run(test)


def test_oldest_item_is_dispatched_next_whatever_its_model() -> None:
    """Guards a fault: the model named first got every slot while any item of it waited."""

    async def test(scheduler: Scheduler) -> None:
        worker = FakeWorker(scheduler)
        requests = [begin(scheduler, pairs(MAX_SLOTS))]
        await settle()
        requests.append(begin(scheduler, pairs(1, "pt-en")))
        await settle()
        requests.append(begin(scheduler, pairs(1)))
        await settle()
        worker.finish(worker.given[0])
        assert worker.received[worker.given[-1]].model == "pt-en"
        worker.finish_all()
        await asyncio.gather(*requests)
        assert_idle(scheduler)

    run(test)


def test_item_is_given_to_the_worker_that_holds_fewest() -> None:
    async def test(scheduler: Scheduler) -> None:
        first, second = (FakeWorker(scheduler, name) for name in ("a", "b"))
        requests = [begin(scheduler, pairs(3))]
        await settle()
        assert (len(first.held), len(second.held)) == (2, 1)
        first.finish(*first.held)
        requests.append(begin(scheduler, pairs(1)))
        await settle()
        assert (len(first.held), len(second.held)) == (1, 1)
        for worker in (first, second):
            worker.finish_all()
        await asyncio.gather(*requests)
        assert_idle(scheduler)

    run(test)


def test_item_is_given_to_the_worker_that_translates_least_where_both_hold_as_many() -> None:
    async def test(scheduler: Scheduler) -> None:
        first, second = (FakeWorker(scheduler, name) for name in ("a", "b"))
        requests = [begin(scheduler, sentences(1))]
        await settle()
        assert first.held
        requests.append(begin(scheduler, pairs(1)))
        await settle()
        assert second.ids(ATTENTION) == [2]
        for worker in (first, second):
            worker.finish_all()
        await asyncio.gather(*requests)
        assert_idle(scheduler)

    run(test)


def test_items_take_no_rows_and_wait_for_none() -> None:
    async def test(scheduler: Scheduler) -> None:
        worker = FakeWorker(scheduler, rows=2)
        translations = begin(scheduler, sentences(4))
        attention = begin(scheduler, pairs(2, first=40))
        await settle()
        assert (len(worker.ids(TRANSLATE)), len(worker.ids(ATTENTION))) == (2, 2)
        worker.finish(*worker.ids(ATTENTION))
        assert numbers(await attention) == [40, 41]
        worker.finish_all()
        assert numbers(await translations) == [2, 3, 4, 5]
        assert scheduler.admission.throughput.tokens == 8  # of translations alone
        assert_idle(scheduler)

    run(test)


def test_bulk_items_wait_beyond_their_share(kind: Kind) -> None:
    async def test(scheduler: Scheduler) -> None:
        worker = FakeWorker(scheduler)
        requests = [begin(scheduler, kind.make(kind.most))]
        await settle()
        requests.append(begin(scheduler, kind.make(10, first=50, is_bulk=True)))
        requests.append(begin(scheduler, kind.make(8, first=100)))
        await settle()
        assert [kind.sample(scheduler, "queue_depth", lane=lane) for lane in LANES] == [8, 10]
        for _ in range(2 * BULK_SHARE):
            worker.finish(next(iter(worker.held)))
        later = worker.given[kind.most :]
        assert [worker.received[i].is_bulk for i in later] == 2 * (
            [False] * (BULK_SHARE - 1) + [True]
        )
        worker.finish_all()
        assert numbers(await requests[1]) == list(range(50, 60))
        assert numbers(await requests[2]) == list(range(100, 108))
        assert_idle(scheduler)

    run(test)


def test_items_of_a_dead_worker_are_first_again(kind: Kind) -> None:
    async def test(scheduler: Scheduler) -> None:
        doomed = FakeWorker(scheduler, "doomed")
        request = begin(scheduler, kind.make(kind.most + 2))
        await settle()
        doomed.die()
        heir = FakeWorker(scheduler, "heir")
        assert heir.given == doomed.given
        heir.finish_all()
        assert numbers(await request) == list(range(2, kind.most + 4))
        assert_idle(scheduler)

    run(test)


def test_second_death_over_an_item_fails_its_request(kind: Kind) -> None:
    async def test(scheduler: Scheduler) -> None:
        with pytest.raises(UnavailableError, match="loading"):
            await begin(scheduler, kind.make(1))
        workers = [FakeWorker(scheduler, name) for name in ("a", "b")]
        request = begin(scheduler, kind.make(1))
        await settle()
        for worker in workers:
            worker.die()
        with pytest.raises(UnavailableError, match="two workers died"):
            await request
        assert_idle(scheduler)

    run(test)


def test_failure_of_one_item_ends_its_request_alone(kind: Kind) -> None:
    async def test(scheduler: Scheduler) -> None:
        worker = FakeWorker(scheduler)
        bad, good = begin(scheduler, kind.make(2)), begin(scheduler, kind.make(1))
        await settle()
        worker.fail(1)
        with pytest.raises(InternalError, match="RuntimeError"):
            await bad
        assert kind.sample(scheduler, "cancelled_total", where="running") == 1
        worker.finish(3)
        assert numbers(await good) == [2]
        assert_idle(scheduler)

    run(test)


@pytest.mark.parametrize("seconds", [0.0, FOREVER])
def test_items_of_an_ended_request_leave_queue_and_worker(kind: Kind, seconds: float) -> None:
    async def test(scheduler: Scheduler) -> None:
        worker = FakeWorker(scheduler)
        request = begin(scheduler, kind.make(kind.most + 2), seconds)
        await asyncio.sleep(0)  # once: the deadline may be now
        if seconds == FOREVER:
            request.cancel()
        with pytest.raises(asyncio.CancelledError if seconds == FOREVER else DeadlineExceededError):
            await request
        assert len(worker.given) == kind.most
        assert not worker.held
        assert [
            kind.sample(scheduler, "cancelled_total", where=where)
            for where in ("running", "queued")
        ] == [kind.most, 2]
        assert_idle(scheduler)

    run(test)


def test_slots_of_a_cancelled_request_are_given_to_the_waiting_items(kind: Kind) -> None:
    async def test(scheduler: Scheduler) -> None:
        worker = FakeWorker(scheduler)
        leaving = begin(scheduler, kind.make(kind.most))
        staying = begin(scheduler, kind.make(1, first=90))
        await settle()
        assert kind.most + 1 not in worker.held
        leaving.cancel()
        await settle()
        assert [*worker.held] == [kind.most + 1]
        worker.finish(kind.most + 1)
        assert numbers(await staying) == [90]
        assert_idle(scheduler)

    run(test)


def test_report_about_a_cancelled_item_is_ignored(kind: Kind) -> None:
    async def test(scheduler: Scheduler) -> None:
        worker = FakeWorker(scheduler)
        request = begin(scheduler, kind.make(1))
        await settle()
        request.cancel()
        await settle()
        scheduler.report(worker, Report(done=[Done(1, [])]))
        assert_idle(scheduler)

    run(test)


def test_closing_fails_waiting_running_and_later_items(kind: Kind) -> None:
    async def test(scheduler: Scheduler) -> None:
        FakeWorker(scheduler)
        requests = [begin(scheduler, kind.make(count)) for count in (kind.most, 2)]
        await settle()
        scheduler.close()
        for request in [*requests, begin(scheduler, kind.make(1))]:
            with pytest.raises(UnavailableError, match="stopping"):
                await request

    run(test)
