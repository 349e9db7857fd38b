"""Measures how much slower translations are while another client requests attention.

The benchmark measures latency in periods, called windows. Windows without attention requests
alternate with windows with attention requests. One client, the attention client, sends these
requests. A reply to this client may have several megabytes. The client runs in a separate process,
so that it does not delay the translation clients.
"""

import asyncio
import http.client
import multiprocessing
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection
from statistics import median

import orjson

from benchmarks.bench.client import Address, BenchError
from benchmarks.bench.load import LoadReport, run_load
from benchmarks.bench.translation import split_pair

ATTENTION, KNOCKOUT = "/attention", "/attention/knockout"
TIMEOUT_SECONDS = 60.0
WARMUP_SECONDS = 1.0
"""Seconds before the measured time of a window. All clients already send during these seconds."""


@dataclass(frozen=True)
class Asked:
    """Counts of the replies to the attention client."""

    replies: int
    errors: int  # number of replies with a status other than 200
    bytes: int  # total size of the bodies in bytes


@dataclass(frozen=True)
class AttentionReport:
    """Results of one run. Windows without and with attention requests alternate."""

    # numbers of source tokens and of target tokens of the attention request
    tokens: tuple[int, int]
    # number of attention values in one reply. With knock-outs, which switch off source words, it is
    # the number of knock-outs times the number of target tokens.
    values: int
    alone: list[LoadReport]  # report of each window without attention requests
    beside: list[LoadReport]  # report of each window with attention requests
    asked: list[Asked]  # counts of the attention client in each window with attention requests
    # median p99 latency in windows with attention requests, divided by the median p99 latency in
    # the other windows
    p99_ratio: float


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
    """Measures translation latency without and with attention requests, in alternating windows.

    In a window with attention requests, the attention client repeats one request. The request comes
    from `long_question` or, with knock-outs, from `knockout_question`.
    """
    body, usage = long_question(url, pair, sentences, num_tokens)
    path = ATTENTION
    if num_knockouts:
        body, path = knockout_question(body, num_knockouts), KNOCKOUT
        usage["attention_values"] = num_knockouts * usage["target_tokens"]
    alone, beside, asked = [], [], []
    for _ in range(rounds):
        alone.append(_load(url, pair, sentences, num_clients, seconds))
        with attention_client(url, body, path) as replies:
            beside.append(_load(url, pair, sentences, num_clients, seconds))
        asked.append(replies[0])
    tokens = usage["source_tokens"], usage["target_tokens"]
    ratio = median_p99(beside) / median_p99(alone)
    return AttentionReport(tokens, usage["attention_values"], alone, beside, asked, ratio)


def median_p99(reports: Sequence[LoadReport]) -> float:
    """Returns the median of the p99 latencies of the windows, in milliseconds."""
    values = [report.p99_ms for report in reports]
    known = [value for value in values if value is not None]
    if len(known) < len(values):
        raise BenchError("no translation finished in a window; give longer windows with --duration")
    return median(known)


def _load(
    url: str, pair: str, sentences: Sequence[str], num_clients: int, seconds: float
) -> LoadReport:
    return asyncio.run(run_load(url, pair, sentences, num_clients, WARMUP_SECONDS, seconds))


def long_question(
    url: str, pair: str, sentences: Sequence[str], num_tokens: int
) -> tuple[bytes, dict[str, int]]:
    """Returns an attention request for a text, and the counts in the `usage` of its reply.

    The request asks for encoder self-attention and cross-attention, in all layers and heads.
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
            raise BenchError(
                f"the sentences have fewer than {num_tokens} tokens; give more with --source"
            )
        text = f"{text} {' '.join(more)}".strip()


def knockout_question(body: bytes, number: int) -> bytes:
    """Returns a knock-out request for the text of an attention request.

    Each knock-out switches off one source word.
    """
    fields = orjson.loads(body)
    asked = {name: fields[name] for name in ("text", "source", "target")}
    return orjson.dumps({**asked, "knockouts": [{"source_words": [n]} for n in range(number)]})


def post(url: str, body: bytes, path: str = ATTENTION) -> tuple[int, bytes]:
    """Sends a request for attention and returns the status and body of the reply."""
    address = Address.parse(url)
    headers = {"Content-Type": "application/json"}
    connection = http.client.HTTPConnection(address.host, address.port, timeout=TIMEOUT_SECONDS)
    try:
        connection.request("POST", f"{address.prefix}{path}", body, headers)
        response = connection.getresponse()
        return response.status, response.read()
    finally:
        connection.close()


@contextmanager
def attention_client(url: str, body: bytes, path: str = ATTENTION) -> Iterator[list[Asked]]:
    """Runs an attention client in its own process.

    The context yields an empty list. When the context ends, the list receives the client's counts.
    """
    ours, theirs = multiprocessing.Pipe()
    process = multiprocessing.get_context("spawn").Process(
        target=ask_in_a_loop, args=(url, body, path, theirs), daemon=True
    )
    process.start()
    theirs.close()
    replies: list[Asked] = []
    try:
        with _reporting_death():
            ours.recv()  # waits until the client has received its first reply
        yield replies
        with _reporting_death():
            ours.send(None)
            replies.append(ours.recv())
    finally:
        process.terminate()
        process.join()


@contextmanager
def _reporting_death() -> Iterator[None]:
    """Raises a BenchError if the process at the other end of a pipe is gone."""
    try:
        yield
    except (EOFError, OSError) as error:
        raise BenchError(
            "the process of the attention client died; is the server running?"
        ) from error


def ask_in_a_loop(url: str, body: bytes, path: str, control: Connection) -> None:
    """Sends requests until a message arrives on `control`, then sends the counts on `control`.

    After the first reply, the function also sends None on `control`.
    """
    replies = errors = num_bytes = 0
    while not control.poll():
        status, reply = post(url, body, path)
        if not replies:
            control.send(None)
        replies += 1
        errors += status != 200
        num_bytes += len(reply)
    control.recv()
    control.send(Asked(replies, errors, num_bytes))
