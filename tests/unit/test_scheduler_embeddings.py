"""Texts to embed in the scheduler: counted by length bucket, and settled once."""

import asyncio
import time

import pytest

from service.errors import DeadlineExceededError, InternalError, UnavailableError
from service.items.embedding import EMBED
from service.items.length_buckets import BUCKET_TOKENS, capacity_tokens
from service.items.result import Done
from service.items.translation import TRANSLATE
from service.scheduling.lanes import BULK_SHARE
from service.scheduling.scheduler import Scheduler
from service.workers.messages import Report
from tests.unit.scheduling import (
    FOREVER,
    FakeWorker,
    assert_idle,
    begin,
    number_of,
    numbers,
    run,
    sentences,
    settle,
    texts,
)

CAPACITY = capacity_tokens(is_on_gpu=False)
FULL = CAPACITY // 64
"""Number of texts of 64 tokens that a worker holds at once."""


def sample(scheduler: Scheduler, name: str, **labels: str) -> float | None:
    labels = {"task": "embed", "model": "tiny", **labels}
    return scheduler.metrics.registry.get_sample_value(f"regard_{name}", labels)


def test_results_are_returned_in_the_order_of_the_texts() -> None:
    async def test(scheduler: Scheduler) -> None:
        worker = FakeWorker(scheduler)
        request = begin(scheduler, texts(3))
        await settle()
        worker.finish(*reversed(worker.given))
        results = await request
        assert numbers(results) == [2, 3, 4]
        assert all(result.queue_seconds >= 0 and result.device_seconds > 0 for result in results)
        assert sample(scheduler, "tokens_total", kind="source") == 30
        assert sample(scheduler, "source_tokens_count") == 3
        assert_idle(scheduler)

    run(test)


def test_worker_holds_larger_batches_of_a_model_on_a_gpu() -> None:
    async def test(scheduler: Scheduler) -> None:
        worker = FakeWorker(scheduler, gpu_models={"tiny"})
        request = begin(scheduler, texts(FULL + 3, length=64))
        await settle()
        assert len(worker.held) == FULL + 3
        worker.finish(*worker.given)
        await request

    run(test)


def test_worker_holds_a_few_batches_at_once() -> None:
    async def test(scheduler: Scheduler) -> None:
        worker = FakeWorker(scheduler)
        request = begin(scheduler, texts(FULL + 3, length=64))
        await settle()
        assert len(worker.held) == FULL
        assert sample(scheduler, "queue_depth", lane="interactive") == 3
        assert sample(scheduler, "queue_tokens", lane="interactive") == 3 * 64
        worker.finish(1)
        assert worker.given[-1] == FULL + 1  # the oldest waiting text
        worker.finish_all()
        assert numbers(await request) == list(range(2, FULL + 5))
        assert_idle(scheduler)

    run(test)


def test_short_text_does_not_wait_behind_long_texts() -> None:
    """The long texts fill the capacity of their own length bucket alone."""

    async def test(scheduler: Scheduler) -> None:
        worker = FakeWorker(scheduler)
        long = begin(scheduler, texts(20, length=BUCKET_TOKENS[1] + 1))
        await settle()
        num_given = len(worker.given)
        assert 1 < num_given < 20
        short = begin(scheduler, texts(1, first=50))
        await settle()
        assert worker.given[num_given:] == [21]
        worker.finish(21)
        assert numbers(await short) == [50]
        worker.finish_all()
        await long
        assert_idle(scheduler)

    run(test)


def test_text_longer_than_the_capacity_is_given_to_an_idle_worker() -> None:
    async def test(scheduler: Scheduler) -> None:
        worker = FakeWorker(scheduler)
        request = begin(scheduler, texts(2, length=2 * CAPACITY))
        await settle()
        assert worker.given == [1]
        worker.finish(1)
        worker.finish(2)
        assert numbers(await request) == [2, 3]
        assert_idle(scheduler)

    run(test)


def test_text_is_given_to_the_worker_that_computes_least_before_it() -> None:
    async def test(scheduler: Scheduler) -> None:
        first, second = (FakeWorker(scheduler, name) for name in ("a", "b"))
        requests = [begin(scheduler, texts(1, length=60))]
        requests.append(begin(scheduler, texts(6, first=10, length=10)))
        await settle()
        assert (len(first.held), len(second.held)) == (1, 6)
        requests.append(begin(scheduler, texts(1, first=20, length=100)))
        await settle()
        assert first.given[-1] == 8  # both compute as many tokens before it
        first.finish(*first.held)
        second.finish(*second.held)
        await asyncio.gather(*requests)
        assert_idle(scheduler)

    run(test)


def test_worker_that_translates_is_the_last_choice_for_a_text() -> None:
    async def test(scheduler: Scheduler) -> None:
        first, second = (FakeWorker(scheduler, name) for name in ("a", "b"))
        translation = begin(scheduler, sentences(1))
        await settle()
        assert first.ids(TRANSLATE)
        request = begin(scheduler, texts(1))
        await settle()
        assert second.ids(EMBED)
        first.finish(*first.held)
        second.finish(*second.held)
        await asyncio.gather(translation, request)
        assert_idle(scheduler)

    run(test)


def test_bulk_texts_wait_beyond_their_share() -> None:
    async def test(scheduler: Scheduler) -> None:
        worker = FakeWorker(scheduler)
        full = begin(scheduler, texts(FULL, first=2, length=64))
        await settle()
        bulk = begin(scheduler, texts(10, first=50, length=64, is_bulk=True))
        await settle()
        fast = begin(scheduler, texts(8, first=100, length=64))
        await settle()
        assert sample(scheduler, "queue_depth", lane="bulk") == 10
        for _ in range(2 * BULK_SHARE):
            worker.finish(next(iter(worker.held)))
        order = [number_of(worker.received[item_id]) for item_id in worker.given[FULL:]]
        assert [number < 100 for number in order] == 2 * ([False] * (BULK_SHARE - 1) + [True])
        worker.finish_all()
        assert numbers(await fast) == list(range(100, 108))
        assert numbers(await bulk) == list(range(50, 60))
        await full
        assert_idle(scheduler)

    run(test)


def test_bulk_texts_alone_are_not_held_back() -> None:
    async def test(scheduler: Scheduler) -> None:
        worker = FakeWorker(scheduler)
        request = begin(scheduler, texts(5, is_bulk=True))
        await settle()
        assert len(worker.held) == 5
        worker.finish(*worker.held)
        await request

    run(test)


def test_encoder_of_a_translation_model_embeds_without_rows() -> None:
    async def test(scheduler: Scheduler) -> None:
        worker = FakeWorker(scheduler)
        request = begin(scheduler, texts(1, "en-pt"))
        await settle()
        assert worker.held[1].model == "en-pt"
        assert worker.used_rows("en-pt") == 0
        worker.finish(1)
        await request
        assert_idle(scheduler)

    run(test)


def test_cancelled_request_leaves_queue_and_worker() -> None:
    async def test(scheduler: Scheduler) -> None:
        worker = FakeWorker(scheduler)
        request = begin(scheduler, texts(FULL + 2, length=64))
        await settle()
        request.cancel()
        with pytest.raises(asyncio.CancelledError):
            await request
        assert not worker.held
        assert sample(scheduler, "cancelled_total", where="queued") == 2
        assert sample(scheduler, "cancelled_total", where="running") == FULL
        scheduler.report(worker, Report(done=[Done(1, b"x")]))  # it was on its way
        assert_idle(scheduler)

    run(test)


def test_text_of_a_dead_worker_is_tried_once_more() -> None:
    async def test(scheduler: Scheduler) -> None:
        doomed = FakeWorker(scheduler, "doomed")
        request = begin(scheduler, texts(2))
        await settle()
        doomed.die()
        assert sample(scheduler, "queue_depth", lane="interactive") == 2
        worker = FakeWorker(scheduler)
        assert worker.given == [1, 2]
        worker.finish(1)
        worker.die()
        FakeWorker(scheduler)
        with pytest.raises(UnavailableError, match="two workers died"):
            await request
        assert_idle(scheduler)

    run(test)


def test_failure_of_one_text_ends_its_request_alone() -> None:
    async def test(scheduler: Scheduler) -> None:
        worker = FakeWorker(scheduler)
        bad, good = (begin(scheduler, texts(1, first=first)) for first in (2, 9))
        await settle()
        worker.fail(1)
        worker.finish(2)
        with pytest.raises(InternalError, match="RuntimeError"):
            await bad
        assert numbers(await good) == [9]
        assert_idle(scheduler)

    run(test)


def test_deadline_ends_a_request() -> None:
    async def test(scheduler: Scheduler) -> None:
        worker = FakeWorker(scheduler)
        with pytest.raises(DeadlineExceededError, match="0 of 2"):
            await begin(scheduler, texts(2), seconds=0.0)
        assert not worker.held
        assert_idle(scheduler)

    run(test)


def test_closing_fails_waiting_and_later_texts() -> None:
    async def test(scheduler: Scheduler) -> None:
        FakeWorker(scheduler)
        request = begin(scheduler, texts(FULL + 2, length=64))
        await settle()
        scheduler.close()
        with pytest.raises(UnavailableError, match="stopping"):
            await request
        with pytest.raises(UnavailableError, match="stopping"):
            scheduler.submit(texts(1), time.perf_counter() + FOREVER)

    run(test)
