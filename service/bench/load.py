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
from dataclasses import dataclass, field
from time import perf_counter

import orjson
from prometheus_client.parser import text_string_to_metric_families

from service.bench.client import Address, BenchError, Connection, Reply, RequestError
from service.bench.quality import split_pair
from service.bench.sentences import SENTENCES

ERROR_PAUSE_SECONDS = 0.1


@dataclass(frozen=True)
class LoadReport:
    """What one run gave; a figure that nothing was measured for is None.

    Attributes:
        seconds: length of the measured window.
        errors: how often, by status and error type or by the kind of RequestError.
        mean_rows: live sentences in a decode step, on average.
        padding_share: padding of source and padding tokens, 0 to 1.
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


def sum_samples(metrics: str, name: str, **labels: str) -> float:
    """Sum the samples of Prometheus text that have this name and at least these labels."""
    return sum(
        sample.value
        for family in text_string_to_metric_families(metrics)
        for sample in family.samples
        if sample.name == name and labels.items() <= sample.labels.items()
    )


def mean_decode_rows(before: str, after: str) -> float | None:
    """Give the mean rows of the decode steps between two readings of /metrics."""
    rows, steps = (
        sum_samples(after, name, phase="decode") - sum_samples(before, name, phase="decode")
        for name in ("regard_batch_rows_sum", "regard_batch_rows_count")
    )
    return rows / steps if steps > 0 else None


def padding_share(before: str, after: str) -> float | None:
    """Give the part of the encoded tokens that was padding between two readings of /metrics."""
    source, padding = (
        sum_samples(after, "regard_tokens_total", kind=kind)
        - sum_samples(before, "regard_tokens_total", kind=kind)
        for kind in ("source", "padding")
    )
    return padding / (source + padding) if source + padding > 0 else None


def ratios(reports: Sequence[LoadReport]) -> list[float | None]:
    """Give the sentences/s of each run over those of the first."""
    first = reports[0].sentences_per_second
    return [report.sentences_per_second / first if first else None for report in reports]


def parse_clients(text: str) -> list[int]:
    """Read `64` or `1,64`.

    Raises:
        BenchError: a part is no whole number above 0.
    """
    counts = [int(part) if part.strip().isdecimal() else 0 for part in text.split(",")]
    if min(counts) < 1:
        raise BenchError(f"clients {text!r} must be whole numbers above 0; give 64, or 1,64")
    return counts


def built_in_sentences(pair: str) -> Sequence[str]:
    """Give our own sentences in the source language of the pair.

    Raises:
        BenchError: there are none in this language.
    """
    language = split_pair(pair)[0]
    if language not in SENTENCES:
        raise BenchError(
            f"no built-in sentences for {language!r}, only for {', '.join(SENTENCES)}; "
            "give --source FILE"
        )
    return SENTENCES[language]


def failure_of(reply: Reply) -> str | None:
    """Name what is wrong with a reply to /translate; None where it is a translation."""
    if reply.status == 200:
        return None if b'"translatedText"' in reply.body else "200 without translatedText"
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
    requests = itertools.cycle(_requests(address, pair, sentences))
    await _try_once(address, next(requests))
    start = perf_counter() + warmup_seconds
    window = Window(start=start, end=start + duration_seconds)
    async with asyncio.TaskGroup() as group:
        for _ in range(num_clients):
            group.create_task(_send_until_end(address, requests, window))
        before = await _scrape_at(window.start, address, window)
        after = await _scrape_at(window.end, address, window)
    return summarise(num_clients, window, before, after)


def summarise(num_clients: int, window: Window, before: str, after: str) -> LoadReport:
    """Turn what a run collected, and /metrics before and after the window, into figures."""
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


def _requests(address: Address, pair: str, sentences: Sequence[str]) -> list[bytes]:
    """Encode every request once, before the clock runs."""
    source, target = split_pair(pair)
    return [
        address.request(
            "POST",
            "/translate",
            orjson.dumps({"q": sentence, "source": source, "target": target}),
        )
        for sentence in sentences
        if sentence.strip()
    ]


async def _try_once(address: Address, request: bytes) -> None:
    reply = await _send_alone(address, request)
    if failure_of(reply) is not None:
        detail = reply.body[:500].decode("utf-8", errors="replace")
        raise BenchError(f"/translate at {address.host}:{address.port}: {reply.status} {detail}")


async def _send_until_end(address: Address, requests: Iterator[bytes], window: Window) -> None:
    """One client. It pauses after an error: how fast a server refuses is not to be measured."""
    connection: Connection | None = None
    while (began := perf_counter()) < window.end:
        try:
            if connection is None or connection.is_closed:
                connection = await Connection.open(address)
            failure = failure_of(await connection.send(next(requests)))
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
        reply = await _send_alone(address, address.request("GET", "/metrics"))
    except RequestError as error:
        window.errors[f"metrics {error.kind}"] += 1
        return ""
    return reply.body.decode("utf-8") if reply.status == 200 else ""


async def _send_alone(address: Address, request: bytes) -> Reply:
    connection = await Connection.open(address)
    try:
        return await connection.send(request)
    finally:
        connection.close()
