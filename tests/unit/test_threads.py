"""Work on long texts runs in threads, and ends when its request ends."""

import asyncio
import math
import random
import subprocess
import sys
import threading
import time
from collections.abc import Callable

import pytest

from service.errors import DeadlineExceededError
from service.tasks.threads import INLINE_CHARS, run_sized
from tests.workers import LIMIT_SECONDS

LONG = INLINE_CHARS + 1


PROFILED = """
import sys
from service.tasks.threads import _Stopped, _Work
work = _Work(lambda: None)
work.stop()
try:
    work.run()
except _Stopped:
    sys.setprofile(lambda *_: None)
    (lambda: None)()
"""


class Endless:
    """A function that ends only if it is stopped, or if the test is over."""

    def __init__(self) -> None:
        self.begun = threading.Event()
        self.stopped = threading.Event()
        self.is_over = False

    def __call__(self) -> None:
        try:
            self.begun.set()
            self.loop()
        except BaseException:
            self.stopped.set()
            raise

    def loop(self) -> None:  # Python 3.13 may raise at its jump, which no `try` around it covers
        while not self.is_over:
            pass


@pytest.fixture
def endless() -> Endless:
    return Endless()


def until_stopped(work: Callable[[Endless], object], endless: Endless) -> None:
    async def main() -> None:
        try:
            await work(endless)  # type: ignore[misc]
            assert endless.stopped.wait(LIMIT_SECONDS)
        finally:
            endless.is_over = True

    asyncio.run(main())


async def begun(endless: Endless) -> asyncio.Task[None]:
    task = asyncio.create_task(run_sized(LONG, time.perf_counter() + 3600, endless))
    while not endless.begun.is_set():
        await asyncio.sleep(0.001)
    return task


def test_thread_ends_when_its_request_is_cancelled(endless: Endless) -> None:
    async def test(endless: Endless) -> None:
        task = await begun(endless)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    until_stopped(test, endless)


def test_thread_ends_at_the_deadline(endless: Endless) -> None:
    async def test(endless: Endless) -> None:
        with pytest.raises(DeadlineExceededError):
            await run_sized(LONG, time.perf_counter() + 0.05, endless)

    until_stopped(test, endless)


def test_cancelled_work_does_not_begin(endless: Endless) -> None:
    ran: list[int] = []

    async def test(endless: Endless) -> None:
        first = await begun(endless)
        waiting = [
            asyncio.create_task(run_sized(LONG, time.perf_counter() + 3600, ran.append, number))
            for number in range(3)
        ]
        await asyncio.sleep(0)
        waiting[1].cancel()
        await asyncio.sleep(0)
        first.cancel()
        await asyncio.gather(first, *waiting, return_exceptions=True)

    until_stopped(test, endless)
    assert ran == [0, 2]


async def test_stopped_work_does_not_stop_the_next_one() -> None:
    """Works are stopped at random moments: before they begin, inside, and as they end."""
    rng = random.Random(1)
    for number in range(300):
        size = rng.choice((1, 1000, 30_000))
        task = asyncio.create_task(
            run_sized(LONG, time.perf_counter() + 3600, sum, map(abs, range(size)))
        )
        for _ in range(rng.randrange(3)):
            await asyncio.sleep(rng.choice((0, 0.0001)))
        task.cancel()
        assert await run_sized(LONG, time.perf_counter() + 3600, abs, number) == number
        await asyncio.gather(task, return_exceptions=True)


async def test_long_works_share_one_thread() -> None:
    deadline = time.perf_counter() + 3600
    works = [run_sized(LONG, deadline, threading.get_ident) for _ in range(5)]
    threads = {*await asyncio.gather(*works)}
    assert len(threads) == 1
    assert threads != {threading.get_ident()}


def test_short_work_needs_no_thread() -> None:
    async def main() -> int:
        return await run_sized(INLINE_CHARS, -math.inf, threading.get_ident)

    assert asyncio.run(main()) == threading.get_ident()


def test_stopped_work_leaves_no_error_to_look_for() -> None:
    """Python 3.11 looked for it at each call, in all threads; with a profiler it hung for ever."""
    subprocess.run([sys.executable, "-c", PROFILED], check=True, timeout=LIMIT_SECONDS)
