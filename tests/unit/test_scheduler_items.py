"""Items of each kind in the scheduler: dispatched to workers with room, and settled once."""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import pytest

from service.errors import DeadlineExceededError, InternalError, UnavailableError
from service.items import (
    ATTENTION,
    BUCKET_TOKENS,
    CAPACITY_TOKENS,
    TRANSLATE,
    Done,
    Failed,
    WorkItem,
)
from service.scheduling.lanes import BULK_SHARE, LANES
from service.scheduling.policies import MAX_SLOTS
from service.scheduling.scheduler import Scheduler
from service.workers.messages import Report
from tests.unit.scheduling import (
    FOREVER,
    FakeWorker,
    begin,
    begun,
    finish,
    numbers,
    pairs,
    sentences,
    settle,
    texts,
)


@dataclass(frozen=True)
class Kind:
    """A kind of items.

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


CAPACITY = CAPACITY_TOKENS[False]
FULL = CAPACITY // 64
"""Number of texts of 64 tokens that a worker holds at once."""
TEXTS = Kind(partial(texts, length=64), {"task": "embed", "model": "tiny"}, 64, FULL)
KINDS = [
    Kind(sentences, {"task": "translate", "model": "en-pt"}, 2, 4),
    Kind(pairs, {"task": "attention", "model": "en-pt"}, 3, MAX_SLOTS),
    TEXTS,
]


def kind_of(kind: Kind) -> str:
    return kind.labels["task"]


@pytest.fixture(params=KINDS, ids=kind_of)
def kind(request: pytest.FixtureRequest) -> Kind:
    found = request.param
    assert isinstance(found, Kind)
    return found


async def test_submission_without_items_has_no_results(scheduler: Scheduler) -> None:
    FakeWorker(scheduler)
    submission = scheduler.submit([], time.perf_counter() + FOREVER)
    assert await submission.in_order() == []
    assert [each async for each in submission] == []
    submission.close()


async def test_worker_holds_few_items_at_once(
    kind: Kind, scheduler: Scheduler, worker: FakeWorker
) -> None:
    request = await begun(scheduler, kind.make(kind.most + 3))
    assert len(worker.held) == kind.most
    assert [
        kind.sample(scheduler, f"queue_{each}", lane="interactive") for each in ("depth", "tokens")
    ] == [3, 3 * kind.tokens]
    worker.finish(2)
    assert worker.given[-1] == kind.most + 1  # the oldest waiting item
    worker.finish_all()
    assert numbers(await request) == list(range(2, kind.most + 5))


async def test_oldest_item_is_dispatched_next_whatever_its_model(
    scheduler: Scheduler, worker: FakeWorker
) -> None:
    """Guards a fault: the model named first got every slot while any item of it waited."""
    requests = [await begun(scheduler, pairs(MAX_SLOTS + 1))]
    requests.append(await begun(scheduler, pairs(1, "pt-en")))
    requests.append(await begun(scheduler, pairs(1)))
    worker.finish(*worker.given[:1])
    worker.finish(*worker.given[1:2])
    models = [worker.received[number].model for number in worker.given[-2:]]
    assert models == ["en-pt", "pt-en"]
    await finish([worker], requests)


async def test_item_is_given_to_the_worker_that_holds_fewest(scheduler: Scheduler) -> None:
    first, second = (FakeWorker(scheduler, name) for name in ("a", "b"))
    requests = [await begun(scheduler, pairs(3))]
    assert (len(first.held), len(second.held)) == (2, 1)
    first.finish(*first.held)
    requests.append(await begun(scheduler, pairs(1)))
    assert (len(first.held), len(second.held)) == (1, 1)
    await finish([first, second], requests)


@pytest.mark.parametrize("kind", KINDS[1:], ids=kind_of, indirect=True)
async def test_item_is_given_to_the_worker_that_translates_least_where_both_hold_as_many(
    kind: Kind, scheduler: Scheduler
) -> None:
    first, second = (FakeWorker(scheduler, name) for name in ("a", "b"))
    requests = [await begun(scheduler, sentences(1))]
    assert first.held
    requests.append(await begun(scheduler, kind.make(1)))
    assert [*second.held] == [2]
    await finish([first, second], requests)


async def test_items_take_no_rows_and_wait_for_none(scheduler: Scheduler) -> None:
    worker = FakeWorker(scheduler, rows=2)
    translations = begin(scheduler, sentences(4))
    attention = await begun(scheduler, pairs(2, first=40))
    assert (len(worker.ids(TRANSLATE)), len(worker.ids(ATTENTION))) == (2, 2)
    worker.finish(*worker.ids(ATTENTION))
    assert numbers(await attention) == [40, 41]
    worker.finish_all()
    assert numbers(await translations) == [2, 3, 4, 5]
    assert scheduler.admission.throughput.tokens == 8  # of translations alone


@pytest.mark.parametrize("kind", KINDS[1:], ids=kind_of, indirect=True)
async def test_bulk_items_without_rows_wait_beyond_their_share(
    kind: Kind, scheduler: Scheduler, worker: FakeWorker
) -> None:
    requests = [await begun(scheduler, kind.make(kind.most))]
    requests.append(begin(scheduler, kind.make(10, first=50, is_bulk=True)))
    requests.append(await begun(scheduler, kind.make(8, first=100)))
    assert [kind.sample(scheduler, "queue_depth", lane=lane) for lane in LANES] == [8, 10]
    for _ in range(2 * BULK_SHARE):
        worker.finish(next(iter(worker.held)))
    later = worker.given[kind.most :]
    assert [worker.received[i].is_bulk for i in later] == 2 * ([False] * (BULK_SHARE - 1) + [True])
    worker.finish_all()
    assert numbers(await requests[1]) == list(range(50, 60))
    assert numbers(await requests[2]) == list(range(100, 108))


async def test_items_of_a_dead_worker_are_first_again(kind: Kind, scheduler: Scheduler) -> None:
    doomed = FakeWorker(scheduler, "doomed")
    request = await begun(scheduler, kind.make(kind.most + 2))
    doomed.die()
    heir = FakeWorker(scheduler, "heir")
    assert heir.given == doomed.given
    heir.finish_all()
    assert numbers(await request) == list(range(2, kind.most + 4))


@pytest.mark.parametrize("is_out_of_memory", [False, True])
async def test_failure_of_one_item_ends_its_request_alone(
    kind: Kind, is_out_of_memory: bool, scheduler: Scheduler, worker: FakeWorker
) -> None:
    """The request ends at once, although the item before the failed item is still computed."""
    bad, good = begin(scheduler, kind.make(2)), await begun(scheduler, kind.make(1))
    worker.fail(2, is_out_of_memory=is_out_of_memory)
    with pytest.raises(InternalError, match="memory" if is_out_of_memory else "RuntimeError"):
        await bad
    assert kind.sample(scheduler, "cancelled_total", where="running") == 1
    worker.finish(3)
    assert numbers(await good) == [2]


@pytest.mark.parametrize("seconds", [0.0, FOREVER])
async def test_items_of_an_ended_request_leave_queue_and_worker(
    kind: Kind, seconds: float, scheduler: Scheduler, worker: FakeWorker
) -> None:
    request = begin(scheduler, kind.make(kind.most + 2), seconds)
    await asyncio.sleep(0)  # once: the deadline may be now
    if seconds == FOREVER:
        request.cancel()
    with pytest.raises(asyncio.CancelledError if seconds == FOREVER else DeadlineExceededError):
        await request
    assert len(worker.given) == kind.most
    assert not worker.held
    assert [
        kind.sample(scheduler, "cancelled_total", where=where) for where in ("running", "queued")
    ] == [kind.most, 2]


async def test_slots_of_a_cancelled_request_are_given_to_the_waiting_items(
    kind: Kind, scheduler: Scheduler, worker: FakeWorker
) -> None:
    leaving = begin(scheduler, kind.make(kind.most))
    staying = await begun(scheduler, kind.make(1, first=90))
    assert kind.most + 1 not in worker.held
    leaving.cancel()
    await settle()
    assert [*worker.held] == [kind.most + 1]
    worker.finish(kind.most + 1)
    assert numbers(await staying) == [90]


async def test_report_about_a_cancelled_item_is_ignored(
    kind: Kind, scheduler: Scheduler, worker: FakeWorker
) -> None:
    request = await begun(scheduler, kind.make(2))
    request.cancel()
    await settle()
    late = Report(done=[Done(1, [])], failed=[Failed(2, "RuntimeError", False)])
    scheduler.report(worker, late)
    assert scheduler.admission.throughput.tokens == 0


async def test_closing_fails_waiting_running_and_later_items(
    kind: Kind, scheduler: Scheduler
) -> None:
    FakeWorker(scheduler)
    requests = [await begun(scheduler, kind.make(count)) for count in (kind.most, 2)]
    scheduler.close()
    for request in [*requests, begin(scheduler, kind.make(1))]:
        with pytest.raises(UnavailableError, match="stopping"):
            await request


async def test_worker_holds_larger_batches_of_a_model_on_a_gpu(scheduler: Scheduler) -> None:
    worker = FakeWorker(scheduler, gpu_models={"tiny"})
    request = await begun(scheduler, texts(FULL + 3, length=64))
    assert len(worker.held) == FULL + 3
    worker.finish(*worker.given)
    await request


async def test_short_text_does_not_wait_behind_long_texts(
    scheduler: Scheduler, worker: FakeWorker
) -> None:
    """The long texts fill the capacity of their own length bucket alone."""
    long = await begun(scheduler, texts(20, length=BUCKET_TOKENS[1] + 1))
    num_given = len(worker.given)
    assert 1 < num_given < 20
    short = await begun(scheduler, texts(1, first=50))
    assert worker.given[num_given:] == [21]
    worker.finish(21)
    assert numbers(await short) == [50]
    worker.finish_all()
    await long


async def test_text_longer_than_the_capacity_is_given_to_an_idle_worker(
    scheduler: Scheduler, worker: FakeWorker
) -> None:
    request = await begun(scheduler, texts(2, length=2 * CAPACITY))
    assert worker.given == [1]
    worker.finish(1)
    worker.finish(2)
    assert numbers(await request) == [2, 3]


async def test_text_is_given_to_the_worker_that_computes_least_before_it(
    scheduler: Scheduler,
) -> None:
    first, second = (FakeWorker(scheduler, name) for name in ("a", "b"))
    requests = [begin(scheduler, texts(1, length=60))]
    requests.append(await begun(scheduler, texts(5, first=10, length=10)))
    assert (len(first.held), len(second.held)) == (1, 5)
    requests.append(await begun(scheduler, texts(1, first=20, length=100)))
    assert second.given[-1] == 7  # it computes 50 tokens before the text, and `first` 60
    await finish([first, second], requests)


async def test_bulk_texts_alone_are_not_held_back(scheduler: Scheduler, worker: FakeWorker) -> None:
    request = await begun(scheduler, texts(5, is_bulk=True))
    assert len(worker.held) == 5
    worker.finish(*worker.held)
    await request
    assert TEXTS.sample(scheduler, "tokens_total", kind="source") == 50
    assert TEXTS.sample(scheduler, "source_tokens_count") == 5
