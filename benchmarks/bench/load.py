"""The load generator: closed loops and open loops.

In a closed loop, each client sends its next request after the reply to the previous one. In an open
loop, requests are sent at given times, whether or not earlier requests have been answered.

In `run_load`, a sentence counts if its reply arrives inside the measured window, which starts after
the warm-up. At the end of the window, the clients stop sending. Errors are counted during the whole
run. Some figures are computed from the server's /metrics at the start and at the end of the window.
"""

import asyncio
import itertools
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from time import perf_counter
from typing import NamedTuple

import orjson
from prometheus_client.parser import text_string_to_metric_families

from benchmarks.bench.client import (
    REQUEST_TIMEOUT_SECONDS,
    Address,
    BenchError,
    Connection,
    Reply,
    RequestError,
    send_once,
)
from benchmarks.bench.texts import translate_request, unusable

ERROR_PAUSE_SECONDS = 0.1

TRANSLATED = b'"translatedText"'
"""Text that every good reply of /translate contains."""


@dataclass(frozen=True)
class LoadReport:
    """Figures of one run; a figure without measurements is None."""

    clients: int
    seconds: float  # length of the measured window
    sentences: int  # that finished inside the window
    sentences_per_second: float
    p50_ms: float | None
    p95_ms: float | None
    p99_ms: float | None
    errors: dict[str, int]  # by status with error type, or by the kind of a RequestError
    mean_rows: float | None  # rows in use in a decode step
    padding_share: float | None  # of all positions that the models computed, 0 to 1
    ratio: float | None = None  # rate / rate of the first run


class End(NamedTuple):
    """The end of one request.

    Times are values of perf_counter. The clock of the event loop is too coarse: in uvloop it
    advances in whole milliseconds.
    """

    sent: float
    at: float
    failure: str | None  # None after a good reply
    status: int = 0  # 0 without a reply
    has_retry_after: bool = False

    @property
    def seconds(self) -> float:
        return self.at - self.sent


@dataclass
class Window:
    """The ends of all requests of a load, and the part of the time that is measured."""

    start: float = 0.0
    end: float = math.inf  # clients stop to send at this time
    sign: bytes = TRANSLATED  # text that every good reply contains
    ends: list[End] = field(default_factory=list)
    num_good: int = 0

    def add(self, sent: float, outcome: Reply | RequestError) -> bool:
        """Adds the end of a request that ends now; returns whether it has a good reply."""
        if isinstance(outcome, RequestError):
            end = End(sent, perf_counter(), outcome.kind)
        else:
            failure = failure_of(outcome, self.sign)
            end = End(sent, perf_counter(), failure, outcome.status, outcome.has_retry_after)
        self.ends.append(end)
        self.num_good += end.failure is None
        return end.failure is None

    def milliseconds(self) -> list[float]:
        """Returns the sorted latencies of the good replies that arrived inside the window."""
        return sorted(
            1000 * each.seconds
            for each in self.ends
            if each.failure is None and self.start <= each.at <= self.end
        )

    def errors(self) -> Counter[str]:
        return Counter(each.failure for each in self.ends if each.failure is not None)


def percentile(ordered: Sequence[float], percent: float) -> float | None:
    if not ordered:
        return None
    return ordered[max(math.ceil(len(ordered) * percent / 100), 1) - 1]


def increase(before: str, after: str, name: str, **labels: str) -> float:
    """Returns the increase of a metric between two readings of /metrics.

    The increase is summed over all samples with this name and these labels. A sample may have
    further labels.
    """

    def total(metrics: str) -> float:
        return sum(
            sample.value
            for family in text_string_to_metric_families(metrics)
            for sample in family.samples
            if sample.name == name and labels.items() <= sample.labels.items()
        )

    return total(after) - total(before)


def mean_decode_rows(before: str, after: str) -> float | None:
    rows = increase(before, after, "regard_batch_rows_sum", phase="decode")
    steps = increase(before, after, "regard_batch_rows_count", phase="decode")
    return rows / steps if steps > 0 else None


def padding_share(before: str, after: str) -> float | None:
    computed = increase(before, after, "regard_tokens_total")  # source, target and padding
    padding = increase(before, after, "regard_tokens_total", kind="padding")
    return padding / computed if computed > 0 else None


def with_ratios(reports: Sequence[LoadReport]) -> list[LoadReport]:
    """Returns the reports with `ratio` set: each rate divided by the rate of the first report."""
    first = reports[0].sentences_per_second
    return [
        replace(report, ratio=report.sentences_per_second / first if first else None)
        for report in reports
    ]


def parse_clients(text: str) -> list[int]:
    counts = [int(part) if part.strip().isdecimal() else 0 for part in text.split(",")]
    if min(counts) < 1:
        raise BenchError(f"clients {text!r} must be whole numbers above 0; give 64, or 1,64")
    return counts


def failure_of(reply: Reply, sign: bytes = TRANSLATED) -> str | None:
    """Returns the failure of a reply; None if its status is 200 and its body contains `sign`."""
    if reply.status == 200:
        return None if sign in reply.body else f"200 without {sign.decode()}".replace('"', "")
    try:
        return f"{reply.status} {orjson.loads(reply.body)['error_type']}"
    except (orjson.JSONDecodeError, LookupError, TypeError):  # the body has no error type
        return str(reply.status)


async def run_load(
    url: str,
    pair: str,
    sentences: Sequence[str],
    num_clients: int,
    warmup_seconds: float,
    duration_seconds: float,
) -> LoadReport:
    """Runs `num_clients` closed loops over the sentences, with one sentence per request."""
    address = Address.parse(url)
    # Requests are encoded once, before the measured time.
    encoded = [translate_request(address, pair, text, True) for text in sentences if text.strip()]
    requests = itertools.cycle(encoded)
    reply = await send_once(address, next(requests))
    if failure_of(reply) is not None:
        raise unusable(reply, 1)
    start = perf_counter() + warmup_seconds
    window = Window(start=start, end=start + duration_seconds)
    metrics_errors: Counter[str] = Counter()
    async with asyncio.TaskGroup() as group:
        for _ in range(num_clients):
            group.create_task(send_until_end(address, requests, window))
        before = await _scrape_at(window.start, address, metrics_errors)
        after = await _scrape_at(window.end, address, metrics_errors)
    return summarise(num_clients, window, before, after, metrics_errors)


def summarise(
    num_clients: int, window: Window, before: str, after: str, metrics_errors: Counter[str]
) -> LoadReport:
    ordered = window.milliseconds()
    seconds = window.end - window.start
    has_metrics = bool(before and after)
    return LoadReport(
        clients=num_clients,
        seconds=seconds,
        sentences=len(ordered),
        sentences_per_second=len(ordered) / seconds,
        p50_ms=percentile(ordered, 50),
        p95_ms=percentile(ordered, 95),
        p99_ms=percentile(ordered, 99),
        errors=dict(window.errors() + metrics_errors),
        mean_rows=mean_decode_rows(before, after) if has_metrics else None,
        padding_share=padding_share(before, after) if has_metrics else None,
    )


async def send_until_end(
    address: Address,
    requests: Iterator[bytes],
    window: Window,
    timeout_seconds: float = REQUEST_TIMEOUT_SECONDS,
    pause_seconds: float = ERROR_PAUSE_SECONDS,
) -> None:
    """Runs one client.

    The client pauses after an error. Without the pause, refused requests would follow each other
    much faster than successful requests.
    """
    connection: Connection | None = None
    try:
        while (began := perf_counter()) < window.end:
            outcome: Reply | RequestError
            try:
                if connection is None or connection.is_closed:
                    connection = await Connection.open(address, timeout_seconds)
                outcome = await connection.send(next(requests))
            except RequestError as error:
                outcome = error
            if not window.add(began, outcome):
                await asyncio.sleep(pause_seconds)
    finally:
        if connection is not None:
            connection.close()


async def _scrape_at(moment: float, address: Address, errors: Counter[str]) -> str:
    """Reads /metrics at `moment` (perf_counter); returns "" if it cannot be read."""
    await asyncio.sleep(moment - perf_counter())
    try:
        reply = await send_once(address, address.request("GET", "/metrics"))
    except RequestError as error:
        errors[f"metrics {error.kind}"] += 1
        return ""
    return reply.body.decode("utf-8") if reply.status == 200 else ""


def steady(per_second: float, seconds: float) -> Iterator[float]:
    """Yields the times of requests at equal intervals, in seconds after the first request."""
    return (number / per_second for number in range(int(per_second * seconds)))


class OpenLoop:
    """Sends requests at given times, each on an idle connection or on a new one.

    Args:
        requests: Endless iterator of encoded requests.
        timeout_seconds: Longest wait for replies after the last request has been sent. After
            this time, requests without a reply count as failed.
    """

    def __init__(self, address: Address, requests: Iterator[bytes], timeout_seconds: float) -> None:
        self.address = address
        self.requests = requests
        self.timeout_seconds = timeout_seconds
        self.idle: list[Connection] = []

    async def run(self, moments: Iterable[float], window: Window) -> float:
        """Sends requests, and waits for the replies; returns the time at which sending ended.

        Args:
            moments: Ascending times of the requests, in seconds from now.
        """
        begin = perf_counter()
        waiting: set[asyncio.Task[None]] = set()
        for moment in moments:
            await asyncio.sleep(max(0.0, begin + moment - perf_counter()))
            task = asyncio.create_task(self._send(next(self.requests), window))
            waiting.add(task)
            task.add_done_callback(waiting.discard)
        end = perf_counter()
        if waiting:
            _, late = await asyncio.wait(waiting, timeout=self.timeout_seconds)
            for task in late:
                task.cancel()
            await asyncio.gather(*late, return_exceptions=True)
        while self.idle:
            self.idle.pop().close()
        return end

    async def _send(self, request: bytes, window: Window) -> None:
        sent = perf_counter()
        try:
            connection = await self._connect()
            reply = await connection.send(request)
        except RequestError as error:
            window.add(sent, error)
        except asyncio.CancelledError:
            late = RequestError("timeout", f"no reply in {self.timeout_seconds:g} s")
            window.add(sent, late)
        else:
            window.add(sent, reply)
            if not reply.is_last:
                self.idle.append(connection)

    async def _connect(self) -> Connection:
        while self.idle:
            if not (connection := self.idle.pop()).is_closed:
                return connection
        return await Connection.open(self.address)
