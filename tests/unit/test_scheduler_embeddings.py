"""Texts to embed in the scheduler: by length, some batches at a worker, settled once."""

import asyncio

import pytest

from service.errors import DeadlineExceededError, InternalError, UnavailableError
from service.items.length_buckets import LEVEL_TOKENS
from service.scheduling.lanes import BULK_SHARE
from service.scheduling.scheduler import Scheduler
from service.scheduling.worker_state import EMBED_TOKENS
from service.workers.messages import Embedded, Report
from tests.unit.scheduling import (
    FOREVER,
    FakeWorker,
    assert_idle,
    begin,
    begin_embedding,
    embedded_ids,
    run,
    sentences,
    settle,
    texts,
)

FULL = EMBED_TOKENS // 64
"""Texts of 64 tokens that a worker has at once."""


def sample(scheduler: Scheduler, name: str, **labels: str) -> float | None:
    labels = {"task": "embed", "model": "tiny", **labels}
    return scheduler.metrics.registry.get_sample_value(f"regard_{name}", labels)


def test_results_come_in_the_order_of_the_texts() -> None:
    async def test(scheduler: Scheduler) -> None:
        worker = FakeWorker(scheduler)
        task = begin_embedding(scheduler, texts(3))
        await settle()
        worker.embed(*reversed(worker.given))
        results = await task
        assert embedded_ids(results) == [2, 3, 4]
        assert all(result.queue_seconds >= 0 and result.device_seconds > 0 for result in results)
        assert sample(scheduler, "tokens_total", kind="source") == 30
        assert sample(scheduler, "source_tokens_count") == 3
        assert_idle(scheduler)

    run(test)


def test_worker_has_some_batches_at_once() -> None:
    async def test(scheduler: Scheduler) -> None:
        worker = FakeWorker(scheduler)
        task = begin_embedding(scheduler, texts(FULL + 3, length=64))
        await settle()
        assert len(worker.texts) == FULL
        assert sample(scheduler, "queue_depth", lane="interactive") == 3
        assert sample(scheduler, "queue_tokens", lane="interactive") == 3 * 64
        worker.embed(1)
        assert worker.given[-1] == FULL + 1  # the oldest that waits
        while worker.texts:
            worker.embed(*worker.texts)
        assert embedded_ids(await task) == list(range(2, FULL + 5))
        assert_idle(scheduler)

    run(test)


def test_short_text_is_not_held_back_by_long_ones() -> None:
    """They have used up their own share of what a worker may have, and not its."""

    async def test(scheduler: Scheduler) -> None:
        worker = FakeWorker(scheduler)
        long = begin_embedding(scheduler, texts(20, length=LEVEL_TOKENS[1] + 1))
        await settle()
        num_given = len(worker.given)
        assert 1 < num_given < 20
        short = begin_embedding(scheduler, texts(1, first=50))
        await settle()
        assert worker.given[num_given:] == [21]
        worker.embed(21)
        assert embedded_ids(await short) == [50]
        while worker.texts:
            worker.embed(*worker.texts)
        await long
        assert_idle(scheduler)

    run(test)


def test_text_longer_than_all_that_a_worker_may_have_is_given() -> None:
    async def test(scheduler: Scheduler) -> None:
        worker = FakeWorker(scheduler)
        task = begin_embedding(scheduler, texts(2, length=2 * EMBED_TOKENS))
        await settle()
        assert worker.given == [1]
        worker.embed(1)
        worker.embed(2)
        assert embedded_ids(await task) == [2, 3]
        assert_idle(scheduler)

    run(test)


def test_texts_go_to_the_worker_with_least_to_do() -> None:
    async def test(scheduler: Scheduler) -> None:
        first, second = (FakeWorker(scheduler, name) for name in ("a", "b"))
        tasks = [begin_embedding(scheduler, texts(1, length=60))]
        tasks.append(begin_embedding(scheduler, texts(6, first=10, length=10)))
        await settle()
        assert (len(first.texts), len(second.texts)) == (1, 6)
        tasks.append(begin_embedding(scheduler, texts(1, first=20, length=100)))
        await settle()
        assert first.given[-1] == 8  # as much to embed at each
        first.embed(*first.texts)
        second.embed(*second.texts)
        await asyncio.gather(*tasks)
        assert_idle(scheduler)

    run(test)


def test_worker_that_translates_gets_the_text_last() -> None:
    async def test(scheduler: Scheduler) -> None:
        first, second = (FakeWorker(scheduler, name) for name in ("a", "b"))
        translation = begin(scheduler, sentences(1))
        await settle()
        assert first.held
        task = begin_embedding(scheduler, texts(1))
        await settle()
        assert second.texts
        first.finish(*first.held)
        second.embed(*second.texts)
        await asyncio.gather(translation, task)
        assert_idle(scheduler)

    run(test)


def test_bulk_waits_but_for_its_share() -> None:
    async def test(scheduler: Scheduler) -> None:
        worker = FakeWorker(scheduler)
        full = begin_embedding(scheduler, texts(FULL, first=2, length=64))
        await settle()
        bulk = begin_embedding(scheduler, texts(10, first=50, length=64), is_bulk=True)
        await settle()
        fast = begin_embedding(scheduler, texts(8, first=100, length=64))
        await settle()
        assert sample(scheduler, "queue_depth", lane="bulk") == 10
        for _ in range(2 * BULK_SHARE):
            worker.embed(next(iter(worker.texts)))
        order = [worker.texts[number].ids[0] for number in worker.given if number > FULL]
        assert [number < 100 for number in order] == 2 * ([False] * (BULK_SHARE - 1) + [True])
        while worker.texts:
            worker.embed(*worker.texts)
        assert embedded_ids(await fast) == list(range(100, 108))
        assert embedded_ids(await bulk) == list(range(50, 60))
        await full
        assert_idle(scheduler)

    run(test)


def test_bulk_alone_is_not_slowed_down() -> None:
    async def test(scheduler: Scheduler) -> None:
        worker = FakeWorker(scheduler)
        task = begin_embedding(scheduler, texts(5), is_bulk=True)
        await settle()
        assert len(worker.texts) == 5
        worker.embed(*worker.texts)
        await task

    run(test)


def test_encoder_of_a_translation_model_is_asked_by_name() -> None:
    async def test(scheduler: Scheduler) -> None:
        worker = FakeWorker(scheduler)
        task = begin_embedding(scheduler, texts(1, "en-pt"))
        await settle()
        assert worker.models == {1: "en-pt"}
        assert worker.rows_used("en-pt") == 0
        worker.embed(1)
        await task
        assert_idle(scheduler)

    run(test)


def test_cancelled_request_leaves_queue_and_worker() -> None:
    async def test(scheduler: Scheduler) -> None:
        worker = FakeWorker(scheduler)
        task = begin_embedding(scheduler, texts(FULL + 2, length=64))
        await settle()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert not worker.texts
        assert sample(scheduler, "cancelled_total", where="queued") == 2
        assert sample(scheduler, "cancelled_total", where="running") == FULL
        scheduler.report(worker, Report(embedded=[Embedded(1, b"x")]))  # it was on its way
        assert_idle(scheduler)

    run(test)


def test_text_of_a_worker_that_died_is_tried_once_more() -> None:
    async def test(scheduler: Scheduler) -> None:
        doomed = FakeWorker(scheduler, "doomed")
        task = begin_embedding(scheduler, texts(2))
        await settle()
        doomed.die()
        assert sample(scheduler, "queue_depth", lane="interactive") == 2
        worker = FakeWorker(scheduler)
        assert worker.given == [1, 2]
        worker.embed(1)
        worker.die()
        FakeWorker(scheduler)
        with pytest.raises(UnavailableError, match="died twice"):
            await task
        assert_idle(scheduler)

    run(test)


def test_failure_of_one_text_ends_its_request_alone() -> None:
    async def test(scheduler: Scheduler) -> None:
        worker = FakeWorker(scheduler)
        bad, good = (begin_embedding(scheduler, texts(1, first=first)) for first in (2, 9))
        await settle()
        worker.fail(1)
        worker.embed(2)
        with pytest.raises(InternalError, match="RuntimeError"):
            await bad
        assert embedded_ids(await good) == [9]
        assert_idle(scheduler)

    run(test)


def test_deadline_ends_a_request() -> None:
    async def test(scheduler: Scheduler) -> None:
        worker = FakeWorker(scheduler)
        with pytest.raises(DeadlineExceededError, match="0 of 2"):
            await begin_embedding(scheduler, texts(2), seconds=0.0)
        assert not worker.texts
        assert_idle(scheduler)

    run(test)


def test_closing_fails_who_waits_and_who_comes() -> None:
    async def test(scheduler: Scheduler) -> None:
        FakeWorker(scheduler)
        task = begin_embedding(scheduler, texts(FULL + 2, length=64))
        await settle()
        scheduler.close()
        with pytest.raises(UnavailableError, match="stopping"):
            await task
        with pytest.raises(UnavailableError, match="stopping"):
            await scheduler.embed(texts(1), False, FOREVER)

    run(test)
