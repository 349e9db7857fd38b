"""Measures how much slower translations are beside attention requests, and beside long lists.

Latency is measured in periods, called windows. Windows without the other requests alternate with
windows with them. A reply with attention may have several megabytes. Its client runs in a separate
process, so that it does not delay the translation clients.
"""

import asyncio
import itertools
import multiprocessing
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from statistics import median
from time import perf_counter

import orjson
import uvloop

from benchmarks.bench.client import Address, BenchError, RequestError, ask
from benchmarks.bench.load import LoadReport, Window, run_load, send_until_end
from benchmarks.bench.texts import LIST_TIMEOUT_SECONDS, split_pair, translate_request

ATTENTION, KNOCKOUT = "/attention", "/attention/knockout"
ATTENTION_WARMUP_SECONDS = 1.0
LISTS_WARMUP_SECONDS = 3.0
RETRY_SECONDS = 1.0
JOB_LIST = 1000
"""Number of sentences in each list of the additional client that `run_bulk` starts."""


@dataclass(frozen=True)
class Asked:
    """Counts of the replies to the attention client."""

    replies: int
    errors: int  # replies with a status other than 200
    bytes: int  # total size of the bodies


@dataclass(frozen=True)
class AttentionReport:
    """Results of one run. Windows without and with attention requests alternate."""

    tokens: tuple[int, int]  # source and target tokens of the attention request
    values: int  # attention values in a reply; with knock-outs, their number times target tokens
    alone: list[LoadReport]
    beside: list[LoadReport]
    asked: list[Asked]  # in each window with attention requests
    p99_ratio: float  # median p99 beside attention requests / median p99 alone


@dataclass(frozen=True)
class BulkReport:
    """Figures of one run. Windows without lists and windows with lists alternate."""

    clients: int  # that send single sentences
    alone: list[LoadReport]
    beside: list[LoadReport]
    p99_ratio: float  # median p99 of single sentences beside lists / median p99 alone
    lists: int  # lists that were translated
    statuses: dict[str, int]  # failed lists by status with error type, or by kind of error


def run_attention(
    url: str,
    pair: str,
    sentences: Sequence[str],
    num_clients: int,
    num_tokens: int,
    rounds: int,
    seconds: float,
    num_knockouts: int = 0,
) -> AttentionReport:
    """Measures translation latency without and with attention requests, in alternating windows."""
    body, usage = long_question(url, pair, sentences, num_tokens)
    path = ATTENTION
    if num_knockouts:
        body, path = knockout_question(body, num_knockouts), KNOCKOUT
        usage["attention_values"] = num_knockouts * usage["target_tokens"]

    def measure() -> LoadReport:
        load = run_load(url, pair, sentences, num_clients, ATTENTION_WARMUP_SECONDS, seconds)
        return uvloop.run(load)

    alone, beside, asked = [], [], []
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        for _ in range(rounds):
            alone.append(measure())
            pool.submit(send_in_a_loop, url, path, body, 0.0).result()  # starts the process
            asking = pool.submit(
                send_in_a_loop, url, path, body, ATTENTION_WARMUP_SECONDS + seconds
            )
            beside.append(measure())
            asked.append(asking.result())
    tokens = usage["source_tokens"], usage["target_tokens"]
    ratio = median_p99(beside) / median_p99(alone)
    return AttentionReport(tokens, usage["attention_values"], alone, beside, asked, ratio)


def median_p99(reports: Sequence[LoadReport]) -> float:
    values = [report.p99_ms for report in reports]
    known = [value for value in values if value is not None]
    if len(known) < len(values):
        raise BenchError("no translation finished in a window; give longer windows with --duration")
    return median(known)


def long_question(
    url: str, pair: str, sentences: Sequence[str], num_tokens: int
) -> tuple[bytes, dict[str, int]]:
    """Returns an attention request for a text, and the counts in the `usage` of its reply.

    The request asks for encoder self-attention and cross-attention, in all layers and heads. The
    text has at least `num_tokens` source tokens.
    """
    source, target = split_pair(pair)
    words = iter(" ".join(sentences).split())
    text = ""
    fields = {"source": source, "target": target, "kinds": ["encoder", "cross"], "layers": "all"}
    while True:
        body = orjson.dumps({**fields, "text": text or next(words), "reduce": "none"})
        reply = ask(url, "POST", ATTENTION, body)
        if reply.status != 200:
            raise BenchError(f"/attention answered {reply.status}: {reply.excerpt}")
        usage: dict[str, int] = orjson.loads(reply.body)["usage"]
        if usage["source_tokens"] >= num_tokens:
            return body, usage
        missing = max(1, (num_tokens - usage["source_tokens"]) // 2)
        more = [word for _, word in zip(range(missing), words, strict=False)]
        if not more:
            raise BenchError(
                f"the sentences have fewer than {num_tokens} tokens; give more with --source"
            )
        text = f"{text} {' '.join(more)}".strip()


def knockout_question(body: bytes, number: int) -> bytes:
    """Returns a request for the same text, in which each knock-out switches off one source word."""
    fields = orjson.loads(body)
    asked = {name: fields[name] for name in ("text", "source", "target")}
    return orjson.dumps({**asked, "knockouts": [{"source_words": [n]} for n in range(number)]})


def send_in_a_loop(url: str, path: str, body: bytes, seconds: float) -> Asked:
    """Sends one request after the other, at least one, and counts the replies."""
    end = perf_counter() + seconds
    replies = errors = num_bytes = 0
    while not replies or perf_counter() < end:
        try:
            reply = ask(url, "POST", path, body)
        except RequestError as error:  # which cannot be pickled
            raise BenchError(str(error)) from None
        replies += 1
        errors += reply.status != 200
        num_bytes += len(reply.body)
    return Asked(replies, errors, num_bytes)


async def send_lists(
    address: Address, pair: str, sentences: Sequence[str], size: int, window: Window
) -> None:
    """Sends lists of `size` sentences in a loop."""
    texts = [*itertools.islice(itertools.cycle(sentences), size)]
    request = itertools.repeat(translate_request(address, pair, texts, False))
    await send_until_end(address, request, window, LIST_TIMEOUT_SECONDS, RETRY_SECONDS)


async def run_bulk(
    url: str,
    pair: str,
    sentences: Sequence[str],
    num_clients: int,
    list_clients: int,
    list_size: int,
    rounds: int,
    seconds: float,
) -> BulkReport:
    """Measures alternating windows without and with clients that send lists.

    In the windows with lists, one more client sends lists of JOB_LIST sentences.
    """
    address, lists = Address.parse(url), Window()
    load = (url, pair, sentences, num_clients, LISTS_WARMUP_SECONDS, seconds)
    alone, beside = [], []
    for _ in range(rounds):
        alone.append(await run_load(*load))
        sizes = [JOB_LIST, *[list_size] * list_clients]
        tasks = [
            asyncio.create_task(send_lists(address, pair, sentences, size, lists)) for size in sizes
        ]
        await asyncio.sleep(LISTS_WARMUP_SECONDS)
        beside.append(await run_load(*load))
        for task in tasks:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
    ratio = median_p99(beside) / median_p99(alone)
    if any(run.errors for run in alone):
        raise BenchError("the server refused single sentences while no lists were sent")
    return BulkReport(num_clients, alone, beside, ratio, lists.num_good, dict(lists.errors()))
