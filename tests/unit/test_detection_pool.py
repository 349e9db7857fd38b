"""Long texts wait in a bounded pool for the detection of their languages."""

import asyncio
import threading
import time
from collections.abc import Collection
from typing import cast

import pytest

from service.api.libretranslate.routes import MAX_DETECT_CHARS, sample
from service.errors import DeadlineExceededError, OverloadedError
from service.tasks.detection import SLICE_CHARS, UNDETECTED, DetectionPool, cost
from service.text.detection import MAX_TEXT_CHARS, Detection, LanguageDetector

LONG = ["a" * 1500] * 4
"""Texts that do not fit into one slice together."""


class FakeDetector:
    """Takes a letter for a language, and records the texts and the threads that read them.

    Attributes:
        may_go_on: Until it is set, no text is read.
    """

    def __init__(self) -> None:
        self.may_go_on = threading.Event()
        self.may_go_on.set()
        self.read: list[str] = []
        self.threads: set[int] = set()

    def detect(self, text: str, among: Collection[str] | None = None) -> list[Detection]:
        assert self.may_go_on.wait(60)
        self.threads.add(threading.get_ident())
        self.read.append(text)
        return [Detection(text[0], 100.0)] if text[0].isalpha() else []


@pytest.fixture
def detector() -> FakeDetector:
    return FakeDetector()


def pool_of(detector: FakeDetector, max_waiting: int = 64) -> DetectionPool:
    return DetectionPool(cast("LanguageDetector", detector), max_waiting)


def soon() -> float:
    return time.perf_counter() + 60


async def until_read(detector: FakeDetector, count: int) -> None:
    while len(detector.read) < count:
        await asyncio.sleep(0.001)


def test_few_characters_are_read_in_the_event_loop(detector: FakeDetector) -> None:
    pool = pool_of(detector, max_waiting=1)
    pool.num_waiting = 1
    found = asyncio.run(pool.detect(["a" * 10**6, "5"], soon()))
    assert found == [[Detection("a", 100.0)], [UNDETECTED]]
    assert detector.threads == {threading.get_ident()}


async def test_many_characters_are_read_in_order_in_one_thread(detector: FakeDetector) -> None:
    pool = pool_of(detector)
    texts = [letter * 1500 for letter in "abcdefgh"]

    lists = await asyncio.gather(*(pool.detect(texts, soon()) for _ in range(3)))
    for found in lists:
        assert [each[0].language for each in found] == [*"abcdefgh"]
    assert len(detector.threads) == 1
    assert detector.threads != {threading.get_ident()}
    assert (pool.num_waiting, pool.waiting_chars) == (0, 0)


async def test_requests_take_turns(detector: FakeDetector) -> None:
    pool = pool_of(detector)

    await asyncio.gather(*(pool.detect([x * 1500] * 4, soon()) for x in "ab"))
    assert [text[0] for text in detector.read] == [*"abababab"]


async def test_request_over_the_limit_is_refused_with_an_estimate(detector: FakeDetector) -> None:
    pool = pool_of(detector, max_waiting=2)
    pool.seconds_per_char = 7 / (2 * sum(map(cost, LONG)))
    detector.may_go_on.clear()
    waiting = [asyncio.create_task(pool.detect(LONG, soon())) for _ in range(2)]
    await asyncio.sleep(0)
    with pytest.raises(OverloadedError, match="REGARD_MAX_PENDING_DETECTIONS") as refused:
        await pool.detect(LONG, soon())
    assert refused.value.retry_after_seconds == 7
    detector.may_go_on.set()
    await asyncio.gather(*waiting)
    await pool.detect(LONG, soon())


async def test_cancelled_request_reads_no_more_texts(detector: FakeDetector) -> None:
    pool = pool_of(detector)
    detector.may_go_on.clear()
    first = asyncio.create_task(pool.detect(LONG, soon()))
    second = asyncio.create_task(pool.detect(LONG, soon()))
    await asyncio.sleep(0.01)
    first.cancel()
    second.cancel()
    await asyncio.gather(first, second, return_exceptions=True)
    assert pool.num_waiting == 0
    detector.may_go_on.set()
    await until_read(detector, 1)
    await asyncio.sleep(0.01)
    assert len(detector.read) == 1


async def test_request_ends_at_its_deadline(detector: FakeDetector) -> None:
    pool = pool_of(detector)
    detector.may_go_on.clear()
    with pytest.raises(DeadlineExceededError, match="0 of 4"):
        await pool.detect(LONG, time.perf_counter() + 0.01)
    assert pool.num_waiting == 0
    detector.may_go_on.set()


def test_list_in_one_language_is_read_up_to_a_limit() -> None:
    texts = ["a" * 10 * MAX_TEXT_CHARS] * 2048
    assert MAX_DETECT_CHARS < sum(map(cost, sample(texts))) <= MAX_DETECT_CHARS + SLICE_CHARS
    assert sample(["a"] * 100) == ["a"] * 100
