"""A closed loop of clients: each sends its next sentence when the reply to the last one is here.

Counted are the sentences that finish inside the measured window, which opens after the warm-up
and closes while all clients still send. An error counts whenever it happens. The server's own
figures are differences of its /metrics at the two ends of the window.
"""

import asyncio
import itertools
import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from time import perf_counter

import orjson
from prometheus_client.parser import text_string_to_metric_families

from service.bench.client import Address, BenchError, Connection, Reply, RequestError, send_once
from service.bench.translation import translate_request, unusable

ERROR_PAUSE_SECONDS = 0.1

TRANSLATED = b'"translatedText"'
"""What a reply of /translate has in it."""


@dataclass(frozen=True)
class LoadReport:
    """What one run gave; a figure that nothing was measured for is None.

    Attributes:
        seconds: length of the measured window.
        errors: how often, by status and error type or by the kind of RequestError.
        mean_rows: live sentences in a decode step, on average.
        padding_share: padding of all places computed in encoder and decoder, 0 to 1.
        ratio: sentences/s over those of the first run.
    """

    clients: int
    seconds: float
    sentences: int
    sentences_per_second: float
    p50_ms: float | None
    p95_ms: float | None
    p99_ms: float | None
    errors: dict[str, int]
    mean_rows: float | None
    padding_share: float | None
    ratio: float | None = None


@dataclass
class Window:
    """Collects the requests of one run; its times are perf_counter's.

    The event loop's own clock will not do: uvloop's stands still between whole milliseconds.
    """

    start: float
    end: float
    latencies: list[float] = field(default_factory=list)
    errors: Counter[str] = field(default_factory=Counter)

    def record(self, began: float, finished: float, failure: str | None) -> None:
        """Count one request that has ended."""
        if failure is not None:
            self.errors[failure] += 1
        elif self.start <= finished <= self.end:
            self.latencies.append(finished - began)


def percentile(ordered: Sequence[float], percent: float) -> float | None:
    """Give the smallest value that `percent` % of the ascending values do not exceed."""
    if not ordered:
        return None
    return ordered[max(math.ceil(len(ordered) * percent / 100), 1) - 1]


def increase(before: str, after: str, name: str, **labels: str) -> float:
    """Give how much the samples of this name and at least these labels grew, all together."""

    def total(metrics: str) -> float:
        return sum(
            sample.value
            for family in text_string_to_metric_families(metrics)
            for sample in family.samples
            if sample.name == name and labels.items() <= sample.labels.items()
        )

    return total(after) - total(before)


def mean_decode_rows(before: str, after: str) -> float | None:
    """Give the mean rows of the decode steps between two readings of /metrics."""
    rows = increase(before, after, "regard_batch_rows_sum", phase="decode")
    steps = increase(before, after, "regard_batch_rows_count", phase="decode")
    return rows / steps if steps > 0 else None


def padding_share(before: str, after: str) -> float | None:
    """Give the part of the computed places that was padding between two readings of /metrics."""
    computed = increase(before, after, "regard_tokens_total")  # source, target and padding
    padding = increase(before, after, "regard_tokens_total", kind="padding")
    return padding / computed if computed > 0 else None


def with_ratios(reports: Sequence[LoadReport]) -> list[LoadReport]:
    """Relate each run to the first."""
    first = reports[0].sentences_per_second
    return [
        replace(report, ratio=report.sentences_per_second / first if first else None)
        for report in reports
    ]


def parse_clients(text: str) -> list[int]:
    """Read `64` or `1,64`.

    Raises:
        BenchError: a part is no whole number above 0.
    """
    counts = [int(part) if part.strip().isdecimal() else 0 for part in text.split(",")]
    if min(counts) < 1:
        raise BenchError(f"clients {text!r} must be whole numbers above 0; give 64, or 1,64")
    return counts


def failure_of(reply: Reply, sign: bytes = TRANSLATED) -> str | None:
    """Name what is wrong with a reply; None where it is 200 and the sign of an answer is in it."""
    if reply.status == 200:
        return None if sign in reply.body else f"200 without {sign.decode()}".replace('"', "")
    try:
        return f"{reply.status} {orjson.loads(reply.body)['error_type']}"
    except (orjson.JSONDecodeError, LookupError, TypeError):  # another server's error body
        return str(reply.status)


async def run_load(
    url: str,
    pair: str,
    sentences: Sequence[str],
    num_clients: int,
    warmup_seconds: float,
    duration_seconds: float,
) -> LoadReport:
    """Run `num_clients` closed loops over the sentences, one sentence a request.

    Raises:
        BenchError: the very first request, sent alone before the clients start, failed.
    """
    address = Address.parse(url)
    # Encoded once, before the clock runs.
    encoded = [translate_request(address, pair, text, True) for text in sentences if text.strip()]
    requests = itertools.cycle(encoded)
    reply = await send_once(address, next(requests))
    if failure_of(reply) is not None:
        raise unusable(reply, 1)
    start = perf_counter() + warmup_seconds
    window = Window(start=start, end=start + duration_seconds)
    async with asyncio.TaskGroup() as group:
        for _ in range(num_clients):
            group.create_task(send_until_end(address, requests, window))
        before = await _scrape_at(window.start, address, window)
        after = await _scrape_at(window.end, address, window)
    return summarise(num_clients, window, before, after)


def summarise(num_clients: int, window: Window, before: str, after: str) -> LoadReport:
    """Turn what a run collected, and /metrics at both ends of the window, into figures."""
    ordered = sorted(1000 * seconds for seconds in window.latencies)
    seconds = window.end - window.start
    return LoadReport(
        clients=num_clients,
        seconds=seconds,
        sentences=len(ordered),
        sentences_per_second=len(ordered) / seconds,
        p50_ms=percentile(ordered, 50),
        p95_ms=percentile(ordered, 95),
        p99_ms=percentile(ordered, 99),
        errors=dict(window.errors),
        mean_rows=mean_decode_rows(before, after),
        padding_share=padding_share(before, after),
    )


async def send_until_end(
    address: Address, requests: Iterator[bytes], window: Window, sign: bytes = TRANSLATED
) -> None:
    """One client. It pauses after an error: how fast a server refuses is not to be measured.

    Args:
        address: The server.
        requests: The next is sent when the reply to the last is here.
        window: Where they are counted; no request begins after its end.
        sign: What an answer has in it.
    """
    connection: Connection | None = None
    while (began := perf_counter()) < window.end:
        try:
            if connection is None or connection.is_closed:
                connection = await Connection.open(address)
            failure = failure_of(await connection.send(next(requests)), sign)
        except RequestError as error:
            failure = error.kind
        window.record(began, perf_counter(), failure)
        if failure is not None:
            await asyncio.sleep(ERROR_PAUSE_SECONDS)
    if connection is not None:
        connection.close()


async def _scrape_at(moment: float, address: Address, window: Window) -> str:
    """Read /metrics at a moment of perf_counter; empty where the server has none."""
    await asyncio.sleep(moment - perf_counter())
    try:
        reply = await send_once(address, address.request("GET", "/metrics"))
    except RequestError as error:
        window.errors[f"metrics {error.kind}"] += 1
        return ""
    return reply.body.decode("utf-8") if reply.status == 200 else ""
