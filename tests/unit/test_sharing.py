"""Equal sentences are computed once, and no request depends on the end of another."""

import asyncio
import gc
import random
import weakref
from collections.abc import Iterator
from typing import Any

import pytest

from model.sequence import DecodingOptions
from service.errors import InternalError, NotFoundError, UnavailableError
from service.items import ResultStream, TranslationItem, WorkItem
from service.scheduling.equal_sentences import SentenceSharing
from service.scheduling.scheduler import Scheduler
from tests.unit.scheduling import FakeWorker, deadline, numbers, pairs, sample, sentences, settle


@pytest.fixture
def max_entries() -> int:
    """Number of cached sentences. A test may parametrize it."""
    return 0


@pytest.fixture
def worker(scheduler: Scheduler, max_entries: int) -> Iterator[FakeWorker]:
    """The worker of a scheduler with shared sentences, of which the test leaves none."""
    scheduler.sharing = sharing = SentenceSharing(scheduler.metrics, max_entries)
    yield FakeWorker(scheduler, rows=8)
    assert not sharing.running


def shared(scheduler: Scheduler, state: str) -> float:
    return sample(scheduler, "regard_shared_sentences_total", model="en-pt", state=state)


def cache_of(scheduler: Scheduler) -> list[Any]:
    assert scheduler.sharing is not None
    return [*scheduler.sharing.cache]


async def test_equal_sentences_in_progress_are_computed_once(
    scheduler: Scheduler, worker: FakeWorker
) -> None:
    first = scheduler.submit(sentences(3), deadline())
    others = [scheduler.submit(sentences(3, first=3), deadline()) for _ in range(2)]
    assert len(worker.given) == 4  # the numbers 2 to 5
    worker.finish_all()
    assert numbers(await first.in_order()) == [2, 3, 4]
    for other in others:
        assert numbers(await other.in_order()) == [3, 4, 5]
    assert shared(scheduler, "running") == 5
    again = scheduler.submit(sentences(1), deadline())
    worker.finish_all()
    assert numbers(await again.in_order()) == [2]
    assert len(worker.given) == 5


async def test_answered_requests_are_freed_without_garbage_collection(
    scheduler: Scheduler, worker: FakeWorker
) -> None:
    gc.collect()
    gc.disable()
    try:
        submission = scheduler.submit(sentences(3), deadline())
        freed = weakref.ref(submission)
        worker.finish_all()
        assert numbers(await submission.in_order()) == [2, 3, 4]
        del submission
        worker.received.clear()
        assert freed() is None
    finally:
        gc.enable()


async def test_sentence_that_a_request_repeats_is_computed_once(
    scheduler: Scheduler, worker: FakeWorker
) -> None:
    stream = scheduler.submit([*sentences(2), *sentences(2), *sentences(1)], deadline())
    assert len(worker.given) == 2
    worker.finish_all()
    assert numbers(await stream.in_order()) == [2, 3, 2, 3, 2]


async def test_any_number_of_requests_that_wait_for_each_other_fail_together(
    scheduler: Scheduler, worker: FakeWorker
) -> None:
    """Each request waits for a sentence of the request before it; no worker is left."""
    streams = [scheduler.submit(sentences(2, first=first), deadline()) for first in range(500)]
    scheduler.device_lost(worker)
    assert all(isinstance(each.error, UnavailableError) for each in streams)


@pytest.mark.parametrize(
    "other",
    [
        sentences(1, model="pt-en"),
        sentences(1, first=3),
        sentences(1, is_bulk=True),
        sentences(1, beam=2),
        [TranslationItem("en-pt", [2, 0], DecodingOptions(return_scores=True))],
        [TranslationItem("en-pt", [2, 0], DecodingOptions(return_attention=True))],
        [TranslationItem("en-pt", [2, 0], DecodingOptions(), first_id=7)],
        pairs(2),
    ],
)
async def test_sentences_that_differ_are_computed_separately(
    other: list[WorkItem], scheduler: Scheduler, worker: FakeWorker
) -> None:
    streams = [scheduler.submit(items, deadline()) for items in (sentences(1), other)]
    assert len(worker.given) == 1 + len(other)
    worker.finish_all()
    for stream in streams:
        assert len(await stream.in_order()) == stream.total


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 0, 2)])
async def test_last_request_that_leaves_cancels_the_sentence(
    order: tuple[int, ...], scheduler: Scheduler, worker: FakeWorker
) -> None:
    streams = [scheduler.submit(sentences(2), deadline()) for _ in range(3)]
    for index in order:
        assert len(worker.held) == 2
        streams[index].close()
    assert not worker.held


async def test_request_that_leaves_reads_few_of_the_others(
    scheduler: Scheduler, worker: FakeWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each read all others, so that 1,000 requests took a million steps to leave."""
    streams = [scheduler.submit(sentences(1), deadline()) for _ in range(100)]
    reads = 0

    def is_closed(stream: ResultStream) -> bool:
        nonlocal reads
        reads += 1
        return bool(vars(stream)["is_closed"])

    def close(stream: ResultStream, value: bool) -> None:
        vars(stream)["is_closed"] = value

    monkeypatch.setattr(ResultStream, "is_closed", property(is_closed, close), raising=False)
    for stream in streams:
        stream.close()
    assert reads < 1_000
    assert not worker.held


async def test_failing_sentence_fails_only_after_it_was_computed_for_each_request(
    scheduler: Scheduler, worker: FakeWorker
) -> None:
    streams = [scheduler.submit(sentences(2), deadline()) for _ in range(2)]
    worker.fail(worker.given[0])
    with pytest.raises(InternalError):
        await streams[0].in_order()
    assert len(worker.held) == 2
    worker.finish_all()
    assert numbers(await streams[1].in_order()) == [2, 3]


async def test_sentence_is_tried_again_after_an_equal_one_has_failed(
    scheduler: Scheduler, worker: FakeWorker
) -> None:
    """The death of a worker counts only the dispatches of the sentence itself."""
    streams = [scheduler.submit(sentences(1), deadline()) for _ in range(2)]
    worker.fail(*worker.held)
    worker.die()
    other = FakeWorker(scheduler, "worker-1")
    other.finish_all()
    assert numbers(await streams[1].in_order()) == [2]


@pytest.mark.parametrize("max_entries", [10])
async def test_unloaded_model_fails_all_requests_and_loses_its_cache(
    scheduler: Scheduler, worker: FakeWorker
) -> None:
    cached = scheduler.submit([*sentences(1, first=9), *sentences(1, model="pt-en")], deadline())
    worker.finish_all()
    await cached.in_order()
    streams = [scheduler.submit(sentences(2), deadline()) for _ in range(5)]
    scheduler.remove_model("en-pt")
    for stream in streams:
        assert stream.is_closed  # no request waits for its deadline
        with pytest.raises(NotFoundError):
            await stream.in_order()
    assert [key[0] for key in cache_of(scheduler)] == ["pt-en"]


@pytest.mark.parametrize("max_entries", [2])
async def test_cached_sentence_is_not_computed_and_the_oldest_is_dropped(
    scheduler: Scheduler, worker: FakeWorker
) -> None:
    async def translate(count: int, first: int) -> None:
        stream = scheduler.submit(sentences(count, first=first), deadline())
        worker.finish_all()
        assert numbers(await stream.in_order()) == [*range(first, first + count)]

    await translate(2, 2)
    await translate(1, 2)
    assert (len(worker.given), shared(scheduler, "cached")) == (2, 1)
    await translate(1, 4)  # drops 3, because 2 was used later
    await translate(1, 2)
    assert len(worker.given) == 3
    await translate(2, 2)
    assert (len(worker.given), len(cache_of(scheduler))) == (4, 2)


@pytest.mark.parametrize("max_entries", [2])
async def test_result_with_attention_is_not_cached(
    scheduler: Scheduler, worker: FakeWorker
) -> None:
    options = DecodingOptions(return_attention=True)
    stream = scheduler.submit([TranslationItem("en-pt", [2, 0], options)], deadline())
    worker.finish_all()
    await stream.in_order()
    assert not cache_of(scheduler)


@pytest.mark.parametrize(("seed", "max_entries"), [(seed, seed % 3) for seed in range(12)])
async def test_every_request_ends_with_its_own_results(
    seed: int, scheduler: Scheduler, worker: FakeWorker
) -> None:
    """Requests of few different sentences begin, are cancelled and fail at random."""
    chance = random.Random(seed)
    requests: list[tuple[ResultStream, list[int]]] = []
    for _ in range(200):
        event = chance.random()
        if event < 0.5:
            wanted = [chance.randint(2, 8) for _ in range(chance.randint(1, 4))]
            items = [item for number in wanted for item in sentences(1, first=number)]
            requests.append((scheduler.submit(items, deadline()), wanted))
        elif event < 0.6 and requests:
            requests.pop(chance.randrange(len(requests)))[0].close()
        elif event < 0.65 and worker.held:
            worker.fail(chance.choice([*worker.held]))
        elif worker.held:
            worker.finish(chance.choice([*worker.held]))
        await settle()
    worker.finish_all()
    for stream, wanted in requests:
        if stream.error is None:
            async with asyncio.timeout(10):
                assert numbers(await stream.in_order()) == wanted
