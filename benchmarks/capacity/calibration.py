"""Measures the costs of a running server: CPU time of its processes under several loads.

The work and the CPU time of the server come from its /metrics, so the server may run on another
machine.
"""

import asyncio
import itertools
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import fmean

import numpy as np
import uvloop
from numpy.typing import NDArray

from benchmarks.bench.client import Address, BenchError, send_once
from benchmarks.bench.load import LoadReport, OpenLoop, Window, increase, run_load, steady
from benchmarks.bench.texts import in_lists, translate, translate_request
from benchmarks.capacity.costs import Costs, ServerCosts, WorkerCosts
from model.checkpoints.load import ModelFiles, load_vocabularies

CLIENTS = (1, 2, 4, 8, 16, 32, 64, 128, 256)
CAPACITY_CLIENTS = 64
REFUSAL_CLIENTS = 16
REFUSALS_PER_SECOND = 300.0
WARMUP_SECONDS = 1.0
SETTLE_SECONDS = 0.5
"""Time after which /metrics has the statistics of the last batches."""

LIST_SIZE = 64
EARLY_SHARE = 1 / 3
"""CPU time of an early refusal, divided by the CPU time of a late refusal.

An early refusal comes before the body is read (`service.http_server.loop_load`).
"""


@dataclass(frozen=True)
class Level:
    """Work and CPU seconds of one load."""

    clients: int
    per_second: float  # sentences per second
    p50_ms: float  # median latency in milliseconds
    p99_ms: float  # 99th percentile of the latency in milliseconds
    requests: float  # number of requests that were answered
    refused: float  # number of refused requests
    encodes: float  # number of calls of the encoder
    steps: float  # number of decode steps
    rows: float  # number of rows of all decode steps
    workers_seconds: float  # CPU seconds of all workers
    main_seconds: float  # CPU seconds of the main process
    client_seconds: float = 0.0  # CPU seconds of the clients, which are in this process

    @property
    def busy_cores(self) -> float:
        used = self.workers_seconds + self.main_seconds + self.client_seconds
        return self.per_second * used / self.requests


async def scrape(address: Address) -> str:
    """Reads /metrics after the workers have reported their last batches."""
    await asyncio.sleep(SETTLE_SECONDS)
    reply = await send_once(address, address.request("GET", "/metrics"))
    if reply.status != 200:
        raise BenchError(f"/metrics answered {reply.status}; calibration needs it")
    return reply.body.decode()


def processes(metrics: str) -> list[str]:
    sign = 'regard_process_cpu_seconds_total{process="'
    names = [line.split('"')[1] for line in metrics.splitlines() if line.startswith(sign)]
    return [name for name in names if name.startswith("worker-")]


def level_of(report: LoadReport, before: str, after: str) -> Level:
    """Returns the work between two readings of /metrics."""

    def grown(name: str, **labels: str) -> float:
        return increase(before, after, name, **labels)

    cpu = "regard_process_cpu_seconds_total"
    requests = grown("regard_requests_total", task="translate", outcome="ok")
    return Level(
        report.clients,
        report.sentences_per_second,
        report.p50_ms or 0.0,
        report.p99_ms or 0.0,
        requests=requests,
        refused=grown("regard_requests_total", task="translate") - requests,
        encodes=grown("regard_batch_rows_count", phase="encode"),
        steps=grown("regard_batch_rows_count", phase="decode"),
        rows=grown("regard_batch_rows_sum", phase="decode"),
        workers_seconds=sum(grown(cpu, process=name) for name in processes(after)),
        main_seconds=grown(cpu, process="main"),
    )


async def measure_level(
    url: str, pair: str, sentences: Sequence[str], clients: int, seconds: float
) -> Level:
    address = Address.parse(url)
    before, cpu_before = await scrape(address), time.process_time()
    report = await run_load(url, pair, sentences, clients, WARMUP_SECONDS, seconds)
    client_seconds = time.process_time() - cpu_before
    after = await scrape(address)
    return replace(level_of(report, before, after), client_seconds=client_seconds)


async def measure_refusals(url: str, pair: str, sentences: Sequence[str], seconds: float) -> Level:
    """Measures a closed loop while requests with too short a deadline are refused."""
    address = Address.parse(url)
    request = translate_request(address, pair, sentences[0], True, timeout_ms=1)
    loop = OpenLoop(address, itertools.repeat(request), 10.0)
    before = await scrape(address)
    moments = steady(REFUSALS_PER_SECOND, seconds + WARMUP_SECONDS)
    refusing = loop.run(moments, Window())
    load = run_load(url, pair, sentences, REFUSAL_CLIENTS, WARMUP_SECONDS, seconds)
    _, report = await asyncio.gather(refusing, load)
    after = await scrape(address)
    return level_of(report, before, after)


def measure_client(
    url: str, pair: str, sentences: Sequence[str], per_second: float, seconds: float
) -> float:
    """Returns the CPU seconds of the load generator for each request."""
    address = Address.parse(url)
    requests = itertools.cycle(translate_request(address, pair, text, True) for text in sentences)
    loop = OpenLoop(address, requests, 10.0)
    began = time.process_time()
    uvloop.run(loop.run(steady(per_second, seconds), Window()))
    used = time.process_time() - began
    return used / (per_second * seconds)


async def sentence_sizes(
    url: str, pair: str, sentences: Sequence[str], files: ModelFiles
) -> tuple[tuple[int, int], ...]:
    """Translates sentences, and returns the source and target tokens of each."""
    vocabularies = load_vocabularies(files)
    lists = in_lists(sentences, LIST_SIZE)
    translations = await translate(Address.parse(url), pair, lists, split_sentences=False)
    return tuple(
        (len(vocabularies.source.encode(source)), len(vocabularies.target.encode(target)))
        for source, target in zip(sentences, translations, strict=True)
    )


def not_negative(columns: NDArray[np.float64], values: NDArray[np.float64]) -> list[float]:
    """Returns the least-squares weights of columns; no weight is negative.

    All subsets of the columns are tried, because there are few columns.
    """
    best, least = [0.0] * columns.shape[1], float("inf")
    for size in range(1, columns.shape[1] + 1):
        for chosen in itertools.combinations(range(columns.shape[1]), size):
            part = columns[:, chosen]
            found = np.linalg.lstsq(part, values, rcond=None)[0]
            error = float(((part @ found - values) ** 2).sum())
            if found.min() >= 0 and error < least:
                least, best = error, [0.0] * columns.shape[1]
                for index, weight in zip(chosen, found, strict=True):
                    best[index] = float(weight)
    return best


def fit(rows: Sequence[Sequence[float]], values: Sequence[float]) -> list[float]:
    scale = 1 / np.array(values)
    return not_negative(np.array(rows) * scale[:, None], np.ones(len(values)))


def worker_costs(levels: Sequence[Level]) -> WorkerCosts:
    rows = [(each.encodes, each.steps, each.rows) for each in levels]
    encode, step, row = fit(rows, [each.workers_seconds for each in levels])
    return WorkerCosts(encode_seconds=encode, step_seconds=step, row_seconds=row)


def server_costs(levels: Sequence[Level], refusals: Level) -> ServerCosts:
    """Computes the costs of requests, messages and refusals from the main process's CPU time."""
    rows = [(each.requests, each.encodes) for each in levels]
    request, message = fit(rows, [each.main_seconds for each in levels])
    answered = request * refusals.requests + message * refusals.encodes
    refusal = max(0.0, refusals.main_seconds - answered) / max(1.0, refusals.refused)
    return ServerCosts(request, message, refusal, EARLY_SHARE * refusal)


def costs_of(
    levels: Sequence[Level],
    refusals: Level,
    sizes: tuple[tuple[int, int], ...],
    client_seconds: float,
    num_workers: int,
    source: str,
) -> Costs:
    saturated = [each for each in levels if each.clients >= CAPACITY_CLIENTS]
    return Costs(
        worker_costs(levels),
        server_costs(levels, refusals),
        sizes,
        client_seconds,
        fmean(each.per_second for each in saturated),
        num_workers,
        fmean(each.busy_cores for each in saturated),
        source,
    )
