"""What translations notice of attention: latencies with and without a client that asks for it.

The client that asks reads megabytes; it is a process of its own, so that it does not keep those
waiting whose latencies are measured.
"""

import asyncio
import http.client
import multiprocessing
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection
from statistics import median
from urllib.parse import urlsplit

import orjson

from service.bench.client import BenchError
from service.bench.load import LoadReport, run_load
from service.bench.translation import split_pair

TIMEOUT_SECONDS = 60.0
WARMUP_SECONDS = 1.0
"""Before the measured seconds of a window; the client that asks is at it already."""


@dataclass(frozen=True)
class Asked:
    """What the client that asks has had.

    Attributes:
        replies: How many.
        errors: How many were not 200.
        bytes: Of all bodies.
    """

    replies: int
    errors: int
    bytes: int


@dataclass(frozen=True)
class AttentionReport:
    """The two kinds of windows of one run, in turn.

    Attributes:
        tokens: Of the source and of the target that is asked about.
        values: In one reply.
        alone: A report for each window without attention.
        beside: One for each window with it.
        asked: What was asked for in each of those.
        p99_ratio: Median p99 with, over median p99 without.
    """

    tokens: tuple[int, int]
    values: int
    alone: list[LoadReport]
    beside: list[LoadReport]
    asked: list[Asked]
    p99_ratio: float


def run_attention(
    url: str,
    pair: str,
    sentences: Sequence[str],
    num_clients: int,
    num_tokens: int,
    rounds: int,
    seconds: float,
) -> AttentionReport:
    """Measures windows without and with a client that asks for all layers and heads in a loop.

    Raises:
        BenchError: The server does not answer as it should.
    """
    body, usage = long_question(url, pair, sentences, num_tokens)
    alone, beside, asked = [], [], []
    for _ in range(rounds):
        alone.append(_load(url, pair, sentences, num_clients, seconds))
        with asking(url, body) as told:
            beside.append(_load(url, pair, sentences, num_clients, seconds))
        asked.append(told[0])
    tokens = usage["source_tokens"], usage["target_tokens"]
    ratio = median_p99(beside) / median_p99(alone)
    return AttentionReport(tokens, usage["attention_values"], alone, beside, asked, ratio)


def median_p99(reports: Sequence[LoadReport]) -> float:
    """The median of the windows' p99, in milliseconds.

    Raises:
        BenchError: A window has none.
    """
    values = [report.p99_ms for report in reports]
    known = [value for value in values if value is not None]
    if len(known) < len(values):
        raise BenchError("a window ended without one translation; make it longer")
    return median(known)


def _load(
    url: str, pair: str, sentences: Sequence[str], num_clients: int, seconds: float
) -> LoadReport:
    return asyncio.run(run_load(url, pair, sentences, num_clients, WARMUP_SECONDS, seconds))


def long_question(
    url: str, pair: str, sentences: Sequence[str], num_tokens: int
) -> tuple[bytes, dict[str, int]]:
    """A request for all attention of a text of so many source tokens, and the usage it comes to.

    Raises:
        BenchError: The server refuses it, or the sentences are too short for such a text.
    """
    source, target = split_pair(pair)
    words = iter(" ".join(sentences).split())
    text = ""
    fields = {"source": source, "target": target, "kinds": ["encoder", "cross"], "layers": "all"}
    while True:
        body = orjson.dumps({**fields, "text": text or next(words), "reduce": "none"})
        status, reply = post(url, body)
        if status != 200:
            raise BenchError(f"/attention answered {status}: {reply[:200].decode()}")
        usage: dict[str, int] = orjson.loads(reply)["usage"]
        if usage["source_tokens"] >= num_tokens:
            return body, usage
        missing = max(1, (num_tokens - usage["source_tokens"]) // 2)
        more = [word for _, word in zip(range(missing), words, strict=False)]
        if not more:
            raise BenchError(f"the sentences have fewer than {num_tokens} tokens; give more")
        text = f"{text} {' '.join(more)}".strip()


def post(url: str, body: bytes) -> tuple[int, bytes]:
    """The status and body of a reply of /attention."""
    connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=TIMEOUT_SECONDS)
    try:
        connection.request("POST", "/attention", body, {"Content-Type": "application/json"})
        response = connection.getresponse()
        return response.status, response.read()
    finally:
        connection.close()


@contextmanager
def asking(url: str, body: bytes) -> Iterator[list[Asked]]:
    """Asks in a loop while it lasts; afterwards the list holds what came of it."""
    ours, theirs = multiprocessing.Pipe()
    process = multiprocessing.get_context("spawn").Process(
        target=ask_in_a_loop, args=(url, body, theirs), daemon=True
    )
    process.start()
    theirs.close()
    told: list[Asked] = []
    try:
        ours.recv()  # it has had its first reply
        yield told
    finally:
        ours.send(None)
        told.append(ours.recv())
        process.join()


def ask_in_a_loop(url: str, body: bytes, control: Connection) -> None:
    """One reply after the other, until told to stop."""
    replies = errors = num_bytes = 0
    while not control.poll():
        status, reply = post(url, body)
        if not replies:
            control.send(None)
        replies += 1
        errors += status != 200
        num_bytes += len(reply)
    control.recv()
    control.send(Asked(replies, errors, num_bytes))
