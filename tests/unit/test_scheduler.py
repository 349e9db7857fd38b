"""The scheduler: rows, lanes, results, figures, and models that are added and removed."""

import asyncio
import time

import pytest

from model.sequence import BatchStats
from service.errors import NotFoundError
from service.items import ATTENTION, EMBED, TRANSLATE
from service.scheduling.policies import BULK_ROWS, KEPT_SHARE
from service.scheduling.scheduler import Scheduler, call_soon
from service.workers.messages import Report
from tests.unit.scheduling import (
    FOREVER,
    FakeWorker,
    begin,
    begun,
    finish,
    make_scheduler,
    numbers,
    pairs,
    sample,
    sentences,
    settle,
    slots,
    texts,
)


async def test_submissions_of_one_turn_are_dispatched_together() -> None:
    scheduler = make_scheduler(call_soon)
    worker = FakeWorker(scheduler)
    requests = [begin(scheduler, sentences(1, first=first)) for first in (2, 3, 4)]
    await settle()
    assert (worker.given, worker.num_messages) == ([1, 2, 3], 1)
    worker.finish_all()
    assert [numbers(await request) for request in requests] == [[2], [3], [4]]


async def test_results_stream_in_the_order_in_which_they_finish(
    scheduler: Scheduler, worker: FakeWorker
) -> None:
    """Each is yielded while the others are still computed."""
    submission = scheduler.submit(sentences(3), time.perf_counter() + FOREVER)
    stream = aiter(submission)
    for item_id in (2, 3, 1):
        worker.finish(item_id)
        index, result = await anext(stream)
        assert (index, numbers([result])) == (item_id - 1, [item_id + 1])
    assert submission.is_closed
    with pytest.raises(StopAsyncIteration):
        await anext(stream)


async def test_results_of_one_report_finish_in_the_order_of_their_deadlines(
    scheduler: Scheduler,
) -> None:
    worker, finished, now = FakeWorker(scheduler), list[int](), time.perf_counter()

    async def wait(number: int, seconds: float) -> None:
        submission = scheduler.submit(sentences(1, first=number), now + seconds)
        async for _, result in submission:
            finished.extend(numbers([result]))

    limits = {2: 300.0, 3: 100.0, 4: 400.0, 5: 200.0}
    requests = [asyncio.create_task(wait(*each)) for each in limits.items()]
    await settle()
    worker.finish(*worker.given)
    await asyncio.gather(*requests)
    assert finished == [3, 5, 2, 4]


async def test_waiting_sentences_are_dispatched_as_rows_become_free(scheduler: Scheduler) -> None:
    worker = FakeWorker(scheduler, rows=2)
    request = await begun(scheduler, sentences(5))
    assert worker.given == [1, 2]
    assert (slots(scheduler, "used"), slots(scheduler, "free")) == (2, 0)
    worker.finish(2)
    assert worker.given == [1, 2, 3]
    worker.finish(1, 3)
    worker.finish(4, 5)
    results = await request
    assert numbers(results) == [2, 3, 4, 5, 6]
    assert all(result.queue_seconds >= 0 and result.device_seconds > 0 for result in results)
    assert results[4].queue_seconds > results[0].queue_seconds
    assert (slots(scheduler, "used"), slots(scheduler, "free")) == (0, 2)


async def test_bulk_work_leaves_rows_free_for_a_later_sentence(scheduler: Scheduler) -> None:
    """Guards a fault: a short sentence waited for the end of one sentence of a document."""
    worker = FakeWorker(scheduler, rows=int(2 / KEPT_SHARE))
    document = await begun(scheduler, sentences(20, is_bulk=True))
    assert len(worker.held) == 2 / KEPT_SHARE - 2
    assert all(item.is_bulk for item in worker.held.values())
    short = await begun(scheduler, sentences(1))
    (new,) = [item.id for item in worker.held.values() if not item.is_bulk]
    worker.finish(new)
    await short
    worker.finish_all()
    assert len(await document) == 20


@pytest.mark.parametrize("rows", [1, 4, 8])
async def test_bulk_work_takes_all_rows_where_a_beam_needs_them(
    rows: int, scheduler: Scheduler
) -> None:
    worker = FakeWorker(scheduler, rows=rows)
    request = await begun(scheduler, sentences(2, beam=rows, is_bulk=True))
    worker.finish(1)
    worker.finish(2)
    await request


async def test_rows_ahead_wait_in_the_workers_of_a_model() -> None:
    scheduler = make_scheduler(rows_ahead=4)
    first, second = (FakeWorker(scheduler, name, rows=8) for name in ("a", "b"))
    request = await begun(scheduler, sentences(30))
    assert (len(first.held), len(second.held)) == (12, 12)
    first.finish(*[*first.held][:5])
    assert (len(first.held), len(second.held)) == (12, 12)
    first.finish(*[*first.held][:5])
    assert (len(first.held), len(second.held)) == (8, 12)
    assert (slots(scheduler, "used"), slots(scheduler, "free")) == (20, 0)
    first.finish_all()
    second.finish_all()
    await request


async def test_worker_with_a_large_batch_takes_what_others_have_no_rows_for(
    scheduler: Scheduler,
) -> None:
    large = FakeWorker(scheduler, "large", rows=20)
    requests = [await begun(scheduler, sentences(8))]
    small = FakeWorker(scheduler, "small", rows=2)
    requests.append(await begun(scheduler, sentences(5)))
    assert (large.used_rows("en-pt"), small.used_rows("en-pt")) == (11, 2)
    await finish([large, small], requests)


async def test_wide_beam_is_given_to_the_worker_with_room_for_it(scheduler: Scheduler) -> None:
    """Guards a fault: the worker's share of the rows was smaller, and so the beam waited."""
    busy, idle = FakeWorker(scheduler, "busy", rows=8), FakeWorker(scheduler, "idle", rows=8)
    requests = [await begun(scheduler, sentences(12))]
    idle.finish(*idle.given)
    busy.finish(busy.given[0])
    requests.append(await begun(scheduler, sentences(1, beam=8)))
    assert idle.used_rows("en-pt") == 8
    await finish([busy, idle], requests)


async def test_workers_get_rows_until_all_use_about_as_many(scheduler: Scheduler) -> None:
    first, second = FakeWorker(scheduler, "first"), FakeWorker(scheduler, "second")
    requests = [await begun(scheduler, sentences(6))]
    assert (first.used_rows("en-pt"), second.used_rows("en-pt")) == (3, 3)
    second.finish(*second.given)
    third = FakeWorker(scheduler, "third")
    requests.append(await begun(scheduler, sentences(2)))
    used = [worker.used_rows("en-pt") for worker in (first, second, third)]
    assert used == [3, 1, 1]
    requests.append(await begun(scheduler, sentences(5)))
    used = [worker.used_rows("en-pt") for worker in (first, second, third)]
    assert sorted(used) == [3, 3, 4]
    await finish([first, second, third], requests)


async def test_each_model_has_rows_of_its_own(scheduler: Scheduler) -> None:
    worker = FakeWorker(scheduler, rows=1)
    request = await begun(scheduler, [*sentences(1), *sentences(1, model="pt-en", first=9)])
    assert [worker.held[i].model for i in worker.given] == ["en-pt", "pt-en"]
    worker.finish(2, 1)
    assert numbers(await request) == [2, 9]


async def test_figures_of_a_report_are_counted(scheduler: Scheduler, worker: FakeWorker) -> None:
    batches = {BatchStats("encode", 2, 10, 6): 3, BatchStats("decode", 0, 0, 0): 1}
    report = Report(
        batches={"en-pt": batches},
        splits={"en-pt": 3},
        out_of_memory={"en-pt": 2},
        memory_bytes={"resident": 77},
    )
    scheduler.report(worker, report)
    assert sample(scheduler, "regard_batch_splits_total", model="en-pt") == 3
    assert sample(scheduler, "regard_oom_total", model="en-pt") == 2
    labels = {"worker": "worker-0", "kind": "resident"}
    assert sample(scheduler, "regard_device_memory_bytes", **labels) == 77
    kind = {"task": "translate", "model": "en-pt"}
    assert sample(scheduler, "regard_batches_total", **kind, phase="encode") == 3
    assert sample(scheduler, "regard_batch_tokens_sum", **kind, phase="encode") == 30
    assert sample(scheduler, "regard_tokens_total", **kind, kind="padding") == 18
    assert sample(scheduler, "regard_batch_padding_ratio_sum", **kind) == 3 * 6 / 16


async def test_bulk_sentences_use_few_rows_while_interactive_ones_arrive(
    scheduler: Scheduler,
) -> None:
    worker = FakeWorker(scheduler, rows=16)
    interactive = await begun(scheduler, sentences(3))
    bulk = await begun(scheduler, sentences(40, first=100, is_bulk=True))
    assert len(worker.held) == 3 + BULK_ROWS * 3
    worker.finish(*worker.ids(TRANSLATE)[:3])
    await interactive
    assert len(worker.held) <= BULK_ROWS * 3
    worker.finish_all()
    assert numbers(await bulk) == [*range(100, 140)]


NEW = "pt-de"


async def test_new_model_is_computed_by_the_worker_that_has_loaded_it(scheduler: Scheduler) -> None:
    first, second = (FakeWorker(scheduler, name, rows=8) for name in ("a", "b"))
    with pytest.raises(NotFoundError, match=NEW):
        await begin(scheduler, sentences(1, model=NEW))
    scheduler.metrics.add_model(NEW, (TRANSLATE, EMBED, ATTENTION))
    scheduler.add_model(NEW, (TRANSLATE, EMBED, ATTENTION))
    request = await begun(scheduler, sentences(2, model=NEW))
    assert not first.given
    assert not second.given
    scheduler.worker_loaded(second, NEW, 4)
    assert len(second.given) == 2
    second.finish(*second.given)
    assert numbers(await request) == [2, 3]


async def test_item_of_a_kind_that_its_model_does_not_serve_is_refused(
    scheduler: Scheduler, worker: FakeWorker
) -> None:
    with pytest.raises(NotFoundError, match="tiny"):
        await begin(scheduler, [*texts(1), *sentences(1, model="tiny")])
    assert not worker.given  # no item of a refused submission is queued


async def test_worker_receives_no_item_of_a_model_that_it_has_yet_to_load(
    scheduler: Scheduler, worker: FakeWorker
) -> None:
    scheduler.worker_ready(worker)
    scheduler.worker_loaded(worker, "pt-en", 4)
    requests = [
        begin(scheduler, sentences(1)),
        begin(scheduler, pairs(1)),
        begin(scheduler, texts(1)),
    ]
    await settle()
    assert not worker.given
    scheduler.worker_loaded(worker, "en-pt", 4)
    assert len(worker.given) == 2
    scheduler.worker_loaded(worker, "tiny")
    assert len(worker.given) == 3
    for request in requests:
        request.cancel()
    await settle()


async def test_items_of_a_removed_model_fail_and_the_others_go_on(scheduler: Scheduler) -> None:
    worker = FakeWorker(scheduler, rows=2)
    others = begin(scheduler, sentences(2, model="pt-en"))
    left = [
        begin(scheduler, sentences(5)),
        begin(scheduler, pairs(9)),
        begin(scheduler, texts(3, model="en-pt")),
    ]
    await settle()
    scheduler.remove_model("en-pt")
    for request in left:
        with pytest.raises(NotFoundError, match="en-pt has been unloaded"):
            await request
    for items in (sentences(1), pairs(1), texts(1, model="en-pt")):
        with pytest.raises(NotFoundError):
            await begin(scheduler, items)
    assert {item.model for item in worker.held.values()} == {"pt-en"}  # it aborted the others
    assert len(worker.held) == 2
    worker.finish(*worker.held)
    assert len(await others) == 2


async def test_removed_model_takes_the_other_items_of_its_requests_along(
    scheduler: Scheduler,
) -> None:
    """A request whose pivot has been unloaded fails as a whole, and leaves nothing behind."""
    worker = FakeWorker(scheduler, rows=2)
    request = await begun(scheduler, [*sentences(3), *sentences(3, model="pt-en")])
    scheduler.remove_model("en-pt")
    assert not worker.held
    with pytest.raises(NotFoundError, match="en-pt has been unloaded"):
        await request


async def test_request_that_is_cancelled_when_its_model_is_removed(scheduler: Scheduler) -> None:
    """Its task is cancelled, and has not run since to close its submission."""
    FakeWorker(scheduler, rows=1)
    request = await begun(scheduler, sentences(3))
    request.cancel()
    scheduler.remove_model("en-pt")
    await settle()
    assert request.cancelled()
