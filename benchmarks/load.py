"""Puts a load on a server, and measures the server's CPU time in the measured window.

In a closed loop, each client sends its next request when its last reply has arrived. In an open
loop, requests are sent at random times, whether or not earlier replies have arrived.
"""

import asyncio
import itertools
import json
import random
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from time import perf_counter

import uvloop

from benchmarks import tree
from benchmarks.bench.client import Address, Connection, Reply, RequestError
from benchmarks.bench.load import ERROR_PAUSE_SECONDS, OpenLoop, percentile
from benchmarks.environments import MissingError

TIMEOUT_SECONDS = 60.0
POLL_SECONDS = 0.02
WINDOW_SECONDS = 2.0  # length of the windows whose rates `Replies` compares
FULL_SHARE = 0.95
MAX_STRETCH = 10  # largest factor by which warm-up and window grow
MAX_FAILURES = 100  # a load ends after more failures without a success


@dataclass(frozen=True)
class Shape:
    """The load on a server. Either `seconds` or `requests` is above 0."""

    clients: int
    seconds: float = 0.0  # length of the measured window
    warmup: float = 0.0  # seconds of load before the window
    requests: int = 0  # number of requests to send, all of them measured
    rate: float = 0.0  # requests/s of an open loop; 0 for a closed loop
    offset: int = 0  # index of the body that the first request sends


@dataclass(frozen=True)
class Load:
    """The figures of one load."""

    requests: int  # replies with status 200 in the window
    seconds: float  # length of the window
    rate: float
    p50_ms: float
    p95_ms: float
    p99_ms: float
    errors: dict[str, int]  # by status or by the kind of a RequestError, during the whole load
    server_cpu_seconds: float  # of the server's process tree in the window
    own_cpu_seconds: float  # of the load generator in the window
    replies: list[str] = field(default_factory=list)  # bodies, in the order of the requests
    ends: list[tuple[float, str]] = field(default_factory=list)  # time.monotonic, status or kind

    def figures(self) -> dict[str, float]:
        """Returns the figures that a benchmark reports, by name.

        If no reply has status 200, the latencies and the server's CPU time are left out.
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


def translations(load: Load) -> list[str]:
    """Returns the translation in each reply; empty for a missing reply."""
    return [json.loads(reply)["translatedText"] if reply else "" for reply in load.replies]


@dataclass
class Replies:
    """The ends of all requests of a load."""

    ends: list[tuple[float, str]]  # time, and status or kind of error

    def rate(self, begin: float, end: float) -> float:
        return sum(begin <= at < end for at, status in self.ends if status == "200") / (end - begin)

    def full_from(self, begin: float, rate: float) -> float | None:
        """Returns the first time from `begin` on with nearly this rate; None if there is none."""
        last = self.ends[-1][0] - WINDOW_SECONDS
        steps = int((last - begin) / 0.1)
        times = [begin + 0.1 * step for step in range(max(0, steps))]
        return next((t for t in times if self._window(t) >= FULL_SHARE * rate), None)

    def lowest(self, begin: float, end: float) -> float:
        steps = int((min(end, self.ends[-1][0] - WINDOW_SECONDS) - begin) / 0.1)
        return min(self._window(begin + 0.1 * step) for step in range(max(1, steps)))

    def _window(self, begin: float) -> float:
        return self.rate(begin, begin + WINDOW_SECONDS)


def run(
    port: int,
    bodies: list[str],
    shape: Shape,
    pid: int,
    path: str = "/translate",
    on_mark: Callable[[], object] = lambda: None,
) -> Load:
    """Sends a load to a server on the loopback, and returns the figures.

    `bodies` are sent round robin. `pid` is the root of the server's process tree. `on_mark` is
    called when the window opens, and when it closes.
    """
    return uvloop.run(_Run(port, bodies, shape, path).measure(pid, on_mark))


class _Run:
    """One load; it keeps the times and the outcome of every request."""

    def __init__(self, port: int, bodies: list[str], shape: Shape, path: str) -> None:
        self.address = Address("127.0.0.1", port, "")
        self.shape = shape
        encoded = [self.address.request("POST", path, body.encode()) for body in bodies]
        first = shape.offset % len(encoded)
        self.requests = itertools.islice(itertools.cycle(encoded), first, None)
        self.ended: list[tuple[float, float, str]] = []  # sent, ended, outcome
        self.replies = [""] * shape.requests
        self.is_over = False

    async def measure(self, pid: int, on_mark: Callable[[], object]) -> Load:
        def mark() -> tuple[float, float, float]:
            on_mark()
            return perf_counter(), time.thread_time(), tree.cpu_seconds(pid)

        shape = self.shape
        if shape.requests:
            opened = mark()
            await self._closed()
            closed = mark()
        else:
            sending = asyncio.create_task(self._open() if shape.rate else self._closed())
            await self._window(shape.warmup, 0.0, shape.clients)
            opened = mark()
            await self._window(shape.seconds, opened[0], 2 * shape.clients)
            closed = mark()
            self.is_over = True
            await sending
        if self._is_hopeless():
            raise MissingError(f"over {MAX_FAILURES} requests failed, and none succeeded")
        return self._load(opened, closed)

    async def _window(self, seconds: float, start: float, wanted: int) -> None:
        """Waits until a part of the load is over, and longer for clients without replies.

        With many clients and a slow server, the first replies have other latencies than later ones.
        """
        began = perf_counter()
        await asyncio.sleep(seconds)
        limit = began + MAX_STRETCH * max(seconds, 1.0)
        while not (self.shape.rate or self.is_over) and perf_counter() < limit:
            if sum(end >= start and name == "200" for _, end, name in self.ended) >= wanted:
                return
            await asyncio.sleep(POLL_SECONDS)

    async def _open(self) -> None:
        await OpenLoop(self.address, self.requests, TIMEOUT_SECONDS).run(self._moments(), self)

    def _moments(self) -> Iterator[float]:
        generator, moment = random.Random(1), 0.0
        while not self.is_over:
            yield moment
            moment += generator.expovariate(self.shape.rate)

    async def _closed(self) -> None:
        every = range(self.shape.requests) if self.shape.requests else itertools.count()
        numbers = itertools.takewhile(lambda _: not self.is_over, every)
        async with asyncio.TaskGroup() as group:
            for _ in range(self.shape.clients):
                group.create_task(self._client(numbers))

    async def _client(self, numbers: Iterator[int]) -> None:
        """Sends one request after the other; pauses after an error, as in `regard bench`."""
        connection: Connection | None = None
        for number in numbers:
            sent = perf_counter()
            try:
                if connection is None or connection.is_closed:
                    connection = await Connection.open(self.address, TIMEOUT_SECONDS)
                reply = await connection.send(next(self.requests))
            except RequestError as error:
                self.record_failure(sent, error)
                await asyncio.sleep(ERROR_PAUSE_SECONDS)
                continue
            self.record(sent, perf_counter(), reply)
            if reply.status != 200:
                await asyncio.sleep(ERROR_PAUSE_SECONDS)
            elif self.replies:
                self.replies[number] = reply.body.decode()
        if connection is not None:
            connection.close()

    def record(self, sent: float, now: float, reply: Reply) -> None:
        self.ended.append((sent, now, str(reply.status)))

    def record_failure(self, sent: float, error: RequestError) -> None:
        self.ended.append((sent, perf_counter(), error.kind))
        self.is_over |= self._is_hopeless()

    def _is_hopeless(self) -> bool:
        return len(self.ended) > MAX_FAILURES and all(name != "200" for *_, name in self.ended)

    def _load(self, opened: tuple[float, ...], closed: tuple[float, ...]) -> Load:
        is_open = bool(self.shape.rate)
        latencies = sorted(
            1000 * (end - sent)
            for sent, end, name in self.ended
            if name == "200" and opened[0] <= (sent if is_open else end) <= closed[0]
        )
        seconds, own_cpu, server_cpu = (b - a for a, b in zip(opened, closed, strict=True))
        p50, p95, p99 = (percentile(latencies, each) or 0.0 for each in (50, 95, 99))
        return Load(
            len(latencies),
            seconds,
            len(latencies) / seconds,
            p50,
            p95,
            p99,
            errors=dict(Counter(name for *_, name in self.ended if name != "200")),
            server_cpu_seconds=server_cpu,
            own_cpu_seconds=own_cpu,
            replies=self.replies,
            ends=[(end, name) for _, end, name in self.ended],
        )
