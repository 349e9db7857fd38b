"""Detects the languages of many texts in one separate thread, and limits the waiting requests.

The library `lingua`, which detects the languages, holds the lock of the Python interpreter. Two
threads with `lingua` would therefore be no faster than one thread, and would delay the event loop.
"""

import asyncio
import time
from collections.abc import Collection, Sequence
from concurrent.futures import ThreadPoolExecutor

from model.sequence import batches
from service.errors import OverloadedError, too_late
from service.scheduling.admission import retry_seconds
from service.text.detection import MAX_TEXT_CHARS, Detection, LanguageDetector

UNDETECTED = Detection("en", 0.0)
"""LibreTranslate's response for a text without a detectable language."""

SLICE_CHARS = 2048
"""Number of characters, by `cost`, that the thread reads before it turns to another request.

The event loop itself detects the languages of a shorter request. After the end of a request, the
thread finishes only the slice in progress, which takes some milliseconds.
"""

CHARS_PER_TEXT = 20
"""Fixed cost of a text, as a number of characters."""


def cost(text: str) -> int:
    return min(len(text), MAX_TEXT_CHARS) + CHARS_PER_TEXT


class DetectionPool:
    """Detects the languages of short requests in the event loop, and of long ones in one thread.

    Beyond `max_waiting` requests that wait for the thread, or use it, requests are refused.
    """

    def __init__(self, detector: LanguageDetector, max_waiting: int) -> None:
        self.detector = detector
        self.max_waiting = max_waiting
        self.num_waiting = 0
        self.waiting_chars = 0
        self.seconds_per_char = 1e-6
        self.thread = ThreadPoolExecutor(1, "detection")

    def detect_one(self, text: str, among: Collection[str] | None = None) -> list[Detection]:
        """Returns the likeliest languages of a text, best first; UNDETECTED if none matches."""
        return self.detector.detect(text, among) or [UNDETECTED]

    async def detect(
        self, texts: Sequence[str], deadline: float, among: Collection[str] | None = None
    ) -> list[list[Detection]]:
        """Returns the likeliest languages of each text, among all candidates or the given codes."""
        chars = sum(map(cost, texts))
        if chars <= SLICE_CHARS:
            return [self.detect_one(text, among) for text in texts]
        if self.num_waiting >= self.max_waiting:
            raise OverloadedError(
                "too many requests wait for the detection of their languages; the limit is "
                f"{self.max_waiting}. Name the source language, try again later, or raise "
                "REGARD_MAX_PENDING_DETECTIONS.",
                retry_seconds(self.waiting_chars * self.seconds_per_char),
                "requests",
            )
        self.num_waiting += 1
        self.waiting_chars += chars
        found: list[list[Detection]] = []
        try:
            async with asyncio.timeout(deadline - time.perf_counter()):
                loop = asyncio.get_running_loop()
                for part in batches(texts, map(cost, texts), SLICE_CHARS):
                    found += await loop.run_in_executor(self.thread, self._detect, part, among)
        except TimeoutError:
            raise too_late(len(found), len(texts)) from None
        finally:
            self.num_waiting -= 1
            self.waiting_chars -= chars
        return found

    def _detect(self, texts: Sequence[str], among: Collection[str] | None) -> list[list[Detection]]:
        start = time.perf_counter()
        found = [self.detect_one(text, among) for text in texts]
        speed = (time.perf_counter() - start) / sum(map(cost, texts))
        self.seconds_per_char += (speed - self.seconds_per_char) / 8
        return found
