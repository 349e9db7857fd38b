"""Texts to embed in the scheduler, counted by length bucket.

tests/unit/test_scheduler_attention.py has what holds for attention too.
"""

import asyncio

from service.items.embedding import EMBED
from service.items.length_buckets import BUCKET_TOKENS, capacity_tokens
from service.items.translation import TRANSLATE
from service.scheduling.scheduler import Scheduler
from tests.unit.scheduling import (
    FakeWorker,
    assert_idle,
    begin,
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


def test_worker_holds_larger_batches_of_a_model_on_a_gpu() -> None:
    async def test(scheduler: Scheduler) -> None:
        worker = FakeWorker(scheduler, gpu_models={"tiny"})
        request = begin(scheduler, texts(FULL + 3, length=64))
        await settle()
        assert len(worker.held) == FULL + 3
        worker.finish(*worker.given)
        await request

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


def test_bulk_texts_alone_are_not_held_back() -> None:
    async def test(scheduler: Scheduler) -> None:
        worker = FakeWorker(scheduler)
        request = begin(scheduler, texts(5, is_bulk=True))
        await settle()
        assert len(worker.held) == 5
        worker.finish(*worker.held)
        await request
        assert sample(scheduler, "tokens_total", kind="source") == 50
        assert sample(scheduler, "source_tokens_count") == 5

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
