"""Measures how much slower short texts are embedded while other clients embed long texts.

The run has periods of equal length, called windows. Clients embed long texts in every second
window. All other clients send in every window: they embed short texts, translate, or request
attention. Each client sends its next request after the reply to the previous request. So a faster
server receives more requests.
"""

import asyncio
import itertools
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import Any

import orjson
import uvloop

from benchmarks.bench.client import Address, BenchError, send_once
from benchmarks.bench.load import (
    TRANSLATED,
    Window,
    failure_of,
    increase,
    percentile,
    send_until_end,
)
from benchmarks.bench.texts import split_pair, translate_request

SHORT_TOKENS = (8, 30)
"""Smallest and largest number of tokens of a short text, special tokens included."""

LONG_PARTS = 4
"""Number of different lengths of long texts: 1/4, 2/4, 3/4 and 4/4 of the longest."""

NUM_LONG = 32
"""Number of different long texts."""

MAX_SENTENCES = 200
"""Largest number of sentences that are used.

The number is limited, because the server counts the tokens of each sentence before the run.
"""

SHORT, LONG = "short embeddings", "long embeddings"
TRANSLATIONS, ATTENTION = "translations", "attention"


@dataclass(frozen=True)
class Traffic:
    kind: str  # name of the kind
    requests: Sequence[bytes]  # sent in this order by all clients together, again and again
    sign: bytes  # text that every good reply contains
    tokens: tuple[int, int] | None = None  # of the shortest and the longest text


async def all_traffic(
    address: Address,
    pair: str,
    sentences: Sequence[str],
    max_tokens: int,
    long_model: str | None = None,
) -> list[Traffic]:
    """Returns the requests of each kind of clients.

    The first request of each kind is sent once, to check that the server answers it.
    """
    lines = [sentence for sentence in sentences if sentence.strip()][:MAX_SENTENCES]
    sizes = {line: await count_tokens(address, line) for line in lines}
    num_special = await count_tokens(address, "a") - 1
    traffic = [
        Traffic(
            TRANSLATIONS, [translate_request(address, pair, s, True) for s in lines], TRANSLATED
        ),
        short_embeddings(address, sizes),
        long_embeddings(address, sizes, num_special, max_tokens, long_model),
        Traffic(ATTENTION, [attention_request(address, pair, s) for s in lines], b'"attentions"'),
    ]
    for each in traffic:
        reply = await send_once(address, each.requests[0])
        if failure_of(reply, each.sign) is not None:
            raise BenchError(f"{each.kind}: the first request got {reply.status}: {reply.excerpt}")
    return traffic


async def count_tokens(address: Address, text: str) -> int:
    """Returns the number of tokens of a text, special tokens included, up to the model's limit."""
    body = orjson.dumps({"input": text, "truncate": True, "encoding_format": "base64"})
    reply = await send_once(address, address.request("POST", "/v1/embeddings", body))
    if failure_of(reply, b'"usage"') is not None:
        raise BenchError(f"/v1/embeddings answered {reply.status}: {reply.excerpt}")
    tokens: int = orjson.loads(reply.body)["usage"]["prompt_tokens"]
    return tokens


def short_embeddings(address: Address, sizes: dict[str, int]) -> Traffic:
    fewest, most = SHORT_TOKENS
    short = {text: size for text, size in sizes.items() if fewest <= size <= most}
    if not short:
        raise BenchError(f"no sentence has {fewest} to {most} tokens; give others with --source")
    tokens = min(short.values()), max(short.values())
    return Traffic(SHORT, [embed_request(address, text) for text in short], b"[[", tokens)


def long_embeddings(
    address: Address,
    sizes: dict[str, int],
    num_special: int,
    max_tokens: int,
    model: str | None = None,
) -> Traffic:
    """Returns requests to embed long texts, which are joined sentences.

    Successive texts have different maximum lengths, which repeat after LONG_PARTS texts.
    """
    bare = {text: size - num_special for text, size in sizes.items()}
    if sum(bare.values()) < max_tokens:
        raise BenchError(
            f"the sentences have fewer than {max_tokens} tokens in all; give more with --source"
        )
    texts: list[str] = []
    lengths = []
    for number in range(NUM_LONG):
        wanted = max_tokens * (number % LONG_PARTS + 1) // LONG_PARTS - num_special
        joined, length = joined_to(wanted, bare, first=number)
        texts.append(joined)
        lengths.append(length + num_special)
    requests = [embed_request(address, text, model) for text in texts]
    return Traffic(LONG, requests, b"[[", (min(lengths), max(lengths)))


def joined_to(wanted: int, bare: dict[str, int], first: int) -> tuple[str, int]:
    """Joins sentences up to a number of tokens; returns the text and its number of tokens."""
    lines = list(bare)
    taken: list[str] = []
    length = 0
    for place in range(len(lines)):
        line = lines[(first + place) % len(lines)]
        if length + bare[line] <= wanted:
            taken.append(line)
            length += bare[line]
    return " ".join(taken), length


def embed_request(address: Address, text: str, model: str | None = None) -> bytes:
    body = {"inputs": text, "truncate": True, "model": model}
    return address.request("POST", "/embed", orjson.dumps(body))


def attention_request(address: Address, pair: str, text: str) -> bytes:
    """Encodes the request of the web page: the attention of every head of the last layer."""
    source, target = split_pair(pair)
    body: dict[str, Any] = {"text": text, "source": source, "target": target, "layers": [-1]}
    body |= {"kinds": ["encoder", "cross"], "reduce": "none"}
    return address.request("POST", "/attention", orjson.dumps(body))


SETTLE_SECONDS = 1.0
"""Seconds at the start of each window. Clients already send, but no latency is measured."""

WINDOW_SECONDS = 10.0
"""Approximate length of a window by default, SETTLE_SECONDS included."""

SECONDS_A_LINE = 60.0


@dataclass(frozen=True)
class KindFigures:
    """Figures of one kind of clients, over all windows with or without long embeddings."""

    clients: int
    requests: int  # number of requests that succeeded in the measured seconds of the windows
    per_second: float  # number of these requests per measured second
    p50_ms: float | None  # None if no request succeeded
    p99_ms: float | None


@dataclass(frozen=True)
class Interval:
    """Figures of the part of a run since the previous progress line."""

    seconds: float  # time since the start of the run
    requests: int  # number of requests of all kinds that succeeded in the measured seconds
    alone_p99_ms: float | None  # p99 of short embeddings in windows without long embeddings
    beside_p99_ms: float | None  # p99 of short embeddings in windows with long embeddings
    errors: int  # number of errors of all kinds of clients
    memory_mib: float  # memory of workers and main process in MiB, at the end of this part


@dataclass(frozen=True)
class MixedReport:
    pair: str  # language pair of translations and attention requests
    seconds: float  # time from the start of the first window to the end of the last
    rounds: int  # number of pairs of windows: one without long embeddings, then one with them
    short_tokens: tuple[int, int] | None  # of the shortest and the longest of the short texts
    long_tokens: tuple[int, int] | None  # of the long texts, before truncation
    alone: dict[str, KindFigures]  # by kind of client, in windows without long embeddings
    beside: dict[str, KindFigures]  # in windows with long embeddings
    p99_ratio: float  # p99 of short embeddings beside long embeddings / their p99 alone
    errors: dict[str, dict[str, int]]  # by kind of client, and by the name of the error
    memory_mib: tuple[float, float]  # after the first round and at the end; 0 without such metrics


@dataclass(frozen=True)
class Round:
    """A window without long embeddings, then a window with them."""

    alone: Mapping[str, Window]  # by kind of client
    beside: Mapping[str, Window]
    memory_mib: float  # of workers and main process, after both windows


def num_rounds(seconds: float, wanted: int | None) -> int:
    """Returns the number of rounds; by default windows last about WINDOW_SECONDS."""
    rounds = max(1, round(seconds / (2 * WINDOW_SECONDS))) if wanted is None else wanted
    if seconds / (2 * rounds) <= SETTLE_SECONDS:
        raise BenchError(
            f"with {seconds:g} s and {rounds} rounds, a window lasts {seconds / (2 * rounds):g} s; "
            f"its first {SETTLE_SECONDS:g} s are not measured; raise --duration"
        )
    return rounds


@dataclass(frozen=True)
class Clients:
    """Number of clients of each kind, and the model of the long texts."""

    translating: int
    short: int
    long: int
    asking: int  # clients that request attention
    long_model: str | None = None  # None for the server's first embedding model

    @property
    def by_kind(self) -> dict[str, int]:
        numbers = self.translating, self.short, self.long, self.asking
        return dict(zip((TRANSLATIONS, SHORT, LONG, ATTENTION), numbers, strict=True))


class MixedLoad:
    """Runs clients of all kinds against one server."""

    def __init__(
        self, address: Address, pair: str, traffic: Sequence[Traffic], clients: Mapping[str, int]
    ) -> None:
        self.address = address
        self.pair = pair
        self.traffic = traffic
        self.clients = clients
        self.requests = {each.kind: itertools.cycle(each.requests) for each in traffic}
        self.rounds: list[Round] = []
        self.start = perf_counter()

    def run(self, rounds: int, seconds: float, on_interval: Callable[[Interval], None]) -> None:
        self.start = perf_counter()
        num_reported = lines = 0
        for _ in range(rounds):
            self.rounds.append(uvloop.run(self._round(seconds / (2 * rounds))))
            elapsed = perf_counter() - self.start
            if elapsed // SECONDS_A_LINE > lines:
                lines = int(elapsed // SECONDS_A_LINE)
                on_interval(interval(self.rounds[num_reported:], elapsed))
                num_reported = len(self.rounds)

    async def _round(self, seconds: float) -> Round:
        alone = await self._window(seconds, [each for each in self.traffic if each.kind != LONG])
        beside = await self._window(seconds, self.traffic)
        return Round(alone, beside, await memory_mib(self.address))

    async def _window(self, seconds: float, traffic: Sequence[Traffic]) -> dict[str, Window]:
        now = perf_counter()
        windows = {
            each.kind: Window(now + SETTLE_SECONDS, now + seconds, each.sign) for each in traffic
        }
        async with asyncio.TaskGroup() as group:
            for each in traffic:
                requests, window = self.requests[each.kind], windows[each.kind]
                for _ in range(self.clients[each.kind]):
                    group.create_task(send_until_end(self.address, requests, window))
        return windows

    def report(self) -> MixedReport:
        alone, beside = zip(*((each.alone, each.beside) for each in self.rounds), strict=True)
        figures = self._figures(alone), self._figures(beside)
        tokens = {each.kind: each.tokens for each in self.traffic}
        return MixedReport(
            pair=self.pair,
            seconds=perf_counter() - self.start,
            rounds=len(self.rounds),
            short_tokens=tokens[SHORT],
            long_tokens=tokens[LONG],
            alone=figures[0],
            beside=figures[1],
            p99_ratio=p99_of(figures[1]) / p99_of(figures[0]),
            errors=errors_of([*alone, *beside]),
            memory_mib=(self.rounds[0].memory_mib, self.rounds[-1].memory_mib),
        )

    def _figures(self, windows: Sequence[Mapping[str, Window]]) -> dict[str, KindFigures]:
        return {kind: figures(kind, self.clients[kind], windows) for kind in windows[0]}


def figures(kind: str, clients: int, windows: Sequence[Mapping[str, Window]]) -> KindFigures:
    seconds = sum(each[kind].end - each[kind].start for each in windows)
    ordered = ordered_ms(kind, windows)
    rate = len(ordered) / seconds
    p50, p99 = percentile(ordered, 50), percentile(ordered, 99)
    return KindFigures(clients, len(ordered), rate, p50, p99)


def ordered_ms(kind: str, windows: Iterable[Mapping[str, Window]]) -> list[float]:
    return sorted(ms for each in windows for ms in each[kind].milliseconds())


def p99_of(known: Mapping[str, KindFigures]) -> float:
    p99 = known[SHORT].p99_ms
    if p99 is None:
        raise BenchError("no short embedding finished in the measured time; raise --duration")
    return p99


def errors_of(windows: Iterable[Mapping[str, Window]]) -> dict[str, dict[str, int]]:
    """Returns the errors by kind of client; leaves out kinds without errors."""
    errors: dict[str, Counter[str]] = {}
    for each in windows:
        for kind, window in each.items():
            errors.setdefault(kind, Counter()).update(window.errors())
    return {kind: dict(counts) for kind, counts in errors.items() if counts}


def interval(rounds: Sequence[Round], elapsed: float) -> Interval:
    alone, beside = [each.alone for each in rounds], [each.beside for each in rounds]
    windows = [window for each in [*alone, *beside] for window in each.values()]
    return Interval(
        seconds=elapsed,
        requests=sum(len(window.milliseconds()) for window in windows),
        alone_p99_ms=percentile(ordered_ms(SHORT, alone), 99),
        beside_p99_ms=percentile(ordered_ms(SHORT, beside), 99),
        errors=sum(window.errors().total() for window in windows),
        memory_mib=rounds[-1].memory_mib,
    )


async def memory_mib(address: Address) -> float:
    """Returns the resident memory of the workers and the main process, in MiB."""
    reply = await send_once(address, address.request("GET", "/metrics"))
    text = reply.body.decode() if reply.status == 200 else ""
    workers = increase("", text, "regard_device_memory_bytes", kind="resident")
    return (workers + increase("", text, "process_resident_memory_bytes")) / 2**20


def run_mixed(
    url: str,
    pair: str,
    sentences: Sequence[str],
    clients: Clients,
    max_tokens: int,
    seconds: float,
    rounds: int,
    on_interval: Callable[[Interval], None],
) -> MixedReport:
    address = Address.parse(url)
    traffic = uvloop.run(all_traffic(address, pair, sentences, max_tokens, clients.long_model))
    load = MixedLoad(address, pair, traffic, clients.by_kind)
    load.run(rounds, seconds, on_interval)
    return load.report()
