"""Puts a closed loop on a server, and measures the server's CPU time in the measured window.

The clients are those of `regard bench load`. The window opens when every client has had a reply on
average, and closes after two more.
"""

import asyncio
import itertools
import json
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from time import perf_counter

import uvloop

from benchmarks import tree
from benchmarks.bench.client import Address
from benchmarks.bench.load import End, Window, percentile, send_until_end
from benchmarks.environments import MissingError

POLL_SECONDS = 0.02
WINDOW_SECONDS = 2.0  # length of the windows whose rates `Replies` compares
FULL_SHARE = 0.95
MAX_STRETCH = 10  # largest factor by which warm-up and window grow
MAX_FAILURES = 100  # a load ends after more failures without a success


@dataclass(frozen=True)
class Shape:
    clients: int
    seconds: float  # length of the measured window
    warmup: float = 0.0  # seconds of load before the window
    offset: int = 0  # index of the body that the first request sends


@dataclass(frozen=True)
class Load:
    requests: int  # good replies in the window
    seconds: float  # length of the window
    p50_ms: float
    p95_ms: float
    p99_ms: float
    errors: dict[str, int]  # during the whole load, by status and error type or kind of error
    server_cpu_seconds: float  # of the server's process tree in the window
    own_cpu_seconds: float  # of the load generator in the window
    ends: Sequence[End] = ()  # of all requests

    @property
    def rate(self) -> float:
        return self.requests / self.seconds

    def figures(self) -> dict[str, float]:
        """Returns the figures that a benchmark reports, by name.

        If no reply is good, the latencies and the server's CPU time are left out.
        """
        every = {
            "requests_per_second": self.rate,
            "errors": float(sum(self.errors.values())),
            "client_cpu_share": self.own_cpu_seconds / self.seconds,
        }
        if not self.requests:
            return every
        return every | {
            "p50_ms": self.p50_ms,
            "p95_ms": self.p95_ms,
            "p99_ms": self.p99_ms,
            "cpu_seconds_per_1000": 1000 * self.server_cpu_seconds / self.requests,
        }


def translate_bodies(sentences: Iterable[str], pair: str) -> list[str]:
    """Returns the bodies of requests to /translate, one sentence each."""
    source, _, target = pair.partition("-")
    return [
        json.dumps({"q": text, "source": source, "target": target}, ensure_ascii=False)
        for text in sentences
    ]


class Replies:
    """Rates of a load over time; all times are values of perf_counter."""

    def __init__(self, ends: Iterable[End]) -> None:
        self.moments = [end.at for end in ends if end.failure is None]

    def rate(self, begin: float, end: float) -> float:
        return sum(begin <= at < end for at in self.moments) / (end - begin)

    def full_from(self, begin: float, rate: float) -> float | None:
        """Returns the first time from `begin` on with nearly this rate; None if there is none."""
        steps = int((self.moments[-1] - WINDOW_SECONDS - begin) / 0.1)
        times = [begin + 0.1 * step for step in range(max(0, steps))]
        return next((t for t in times if self._window(t) >= FULL_SHARE * rate), None)

    def lowest(self, begin: float, end: float) -> float:
        steps = int((min(end, self.moments[-1] - WINDOW_SECONDS) - begin) / 0.1)
        return min(self._window(begin + 0.1 * step) for step in range(max(1, steps)))

    def _window(self, begin: float) -> float:
        return self.rate(begin, begin + WINDOW_SECONDS)


def run(
    port: int,
    bodies: Sequence[str],
    shape: Shape,
    pid: int,
    path: str = "/translate",
    on_mark: Callable[[], object] = lambda: None,
) -> Load:
    """Sends a load to a server on the loopback, and returns the figures.

    `bodies` are sent round robin. `pid` is the root of the server's process tree. `on_mark` is
    called when the window opens, and when it closes.
    """
    return uvloop.run(_run(port, bodies, shape, pid, path, on_mark))


async def _run(
    port: int,
    bodies: Sequence[str],
    shape: Shape,
    pid: int,
    path: str,
    on_mark: Callable[[], object],
) -> Load:
    def mark() -> tuple[float, float, float]:
        on_mark()
        return perf_counter(), time.thread_time(), tree.cpu_seconds(pid)

    address = Address("127.0.0.1", port, "")
    encoded = [address.request("POST", path, body.encode()) for body in bodies]
    requests = itertools.islice(itertools.cycle(encoded), shape.offset % len(encoded), None)
    window = Window(sign=b"")
    async with asyncio.TaskGroup() as group:
        for _ in range(shape.clients):
            group.create_task(send_until_end(address, requests, window))
        await _wait(window, shape.warmup, shape.clients)
        opened = mark()
        await _wait(window, shape.seconds, 2 * shape.clients)
        closed = mark()
        window.start, window.end = opened[0], closed[0]
    if _is_hopeless(window):
        raise MissingError(f"over {MAX_FAILURES} requests failed, and none succeeded")
    ordered = window.milliseconds()
    seconds, own_cpu, server_cpu = (b - a for a, b in zip(opened, closed, strict=True))
    p50, p95, p99 = (percentile(ordered, each) or 0.0 for each in (50, 95, 99))
    errors = dict(window.errors())
    return Load(len(ordered), seconds, p50, p95, p99, errors, server_cpu, own_cpu, ends=window.ends)


async def _wait(window: Window, seconds: float, wanted: int) -> None:
    """Waits until a part of the load is over, and longer for clients without replies.

    With many clients and a slow server, the first replies have other latencies than later ones.
    """
    began, wanted = perf_counter(), wanted + window.num_good
    limit = began + MAX_STRETCH * max(seconds, 1.0)
    while (now := perf_counter()) < limit and not _is_hopeless(window):
        if now >= began + seconds and window.num_good >= wanted:
            return
        await asyncio.sleep(POLL_SECONDS)


def _is_hopeless(window: Window) -> bool:
    return not window.num_good and len(window.ends) > MAX_FAILURES
