"""What short embeddings notice of long ones, while others translate and ask for attention.

Windows without and with clients that embed long texts, in turn; everybody else sends in both. All
clients are closed loops, so that each kind takes what the server gives it.
"""

import asyncio
import itertools
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from time import perf_counter

import uvloop

from service.bench.client import Address, BenchError, send_once
from service.bench.load import Window, increase, percentile, send_until_end
from service.bench.mixed_texts import ATTENTION, LONG, SHORT, TRANSLATIONS, Traffic, all_traffic

SETTLE_SECONDS = 1.0
"""Before the measured seconds of a window; all of its clients are at it already."""

WINDOW_SECONDS = 10.0
"""About how long a window is if nothing else is said, with what goes before it."""

SECONDS_A_LINE = 60.0


@dataclass(frozen=True)
class KindFigures:
    """What one kind of clients has had in all windows of a sort, its latencies taken together.

    Attributes:
        clients: How many they were.
        requests: Answered inside the windows.
        per_second: Of those.
        p50_ms: None where nothing was answered.
        p99_ms: Likewise.
    """

    clients: int
    requests: int
    per_second: float
    p50_ms: float | None
    p99_ms: float | None


@dataclass(frozen=True)
class Interval:
    """A line of a soak: how it went since the last one.

    Attributes:
        seconds: Since the start.
        requests: Answered inside the windows, of all kinds.
        alone_p99_ms: Of short embeddings in windows without long ones.
        beside_p99_ms: In windows with them.
        errors: Of all kinds.
        memory_mib: Of the server at the end.
    """

    seconds: float
    requests: int
    alone_p99_ms: float | None
    beside_p99_ms: float | None
    errors: int
    memory_mib: float


@dataclass(frozen=True)
class MixedReport:
    """One run.

    Attributes:
        pair: What was translated, and asked about.
        seconds: From the first window to the last.
        rounds: Windows without long embeddings, and as many with them.
        short_tokens: Of the shortest and the longest short text.
        long_tokens: Of the long ones, before the model cuts them.
        alone: By kind, in the windows without long embeddings.
        beside: In those with them.
        p99_ratio: Short embeddings' p99 beside long ones, over that without.
        errors: How often, by kind of client, and by status and error type.
        memory_mib: Of the server after the first round, and at the end: of the workers and of the
            process that owns them; 0 where its metrics do not tell.
    """

    pair: str
    seconds: float
    rounds: int
    short_tokens: tuple[int, int] | None
    long_tokens: tuple[int, int] | None
    alone: dict[str, KindFigures]
    beside: dict[str, KindFigures]
    p99_ratio: float
    errors: dict[str, dict[str, int]]
    memory_mib: tuple[float, float]


@dataclass(frozen=True)
class Round:
    """A window of each sort, by kind of client, and the server's memory after them."""

    alone: Mapping[str, Window]
    beside: Mapping[str, Window]
    memory_mib: float


def num_rounds(seconds: float, wanted: int | None) -> int:
    """How many rounds a run has; windows are of about WINDOW_SECONDS unless a number is wanted.

    Raises:
        BenchError: A window would have no measured seconds.
    """
    rounds = max(1, round(seconds / (2 * WINDOW_SECONDS))) if wanted is None else wanted
    if seconds / (2 * rounds) <= SETTLE_SECONDS:
        raise BenchError(
            f"{seconds:g} seconds in {rounds} rounds leave {seconds / (2 * rounds):g} a window, of "
            f"which the first {SETTLE_SECONDS:g} is not measured; raise --duration"
        )
    return rounds


@dataclass(frozen=True)
class Clients:
    """How many of each kind."""

    translating: int
    short: int
    long: int
    asking: int

    @property
    def by_kind(self) -> dict[str, int]:
        """By the names of kinds."""
        numbers = self.translating, self.short, self.long, self.asking
        return dict(zip((TRANSLATIONS, SHORT, LONG, ATTENTION), numbers, strict=True))


class MixedLoad:
    """Clients of all kinds at one server.

    Args:
        address: The server.
        pair: What is translated, and asked about.
        traffic: What they send.
        clients: How many they are, by kind.
    """

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
        """Measures windows without and with long embeddings, in turn.

        Args:
            rounds: Windows of each sort.
            seconds: Of all, with what goes before each.
            on_interval: Told about once a minute how it goes.
        """
        self.start = perf_counter()
        num_told = lines = 0
        for _ in range(rounds):
            self.rounds.append(uvloop.run(self._round(seconds / (2 * rounds))))
            elapsed = perf_counter() - self.start
            if elapsed // SECONDS_A_LINE > lines:
                lines = int(elapsed // SECONDS_A_LINE)
                on_interval(interval(self.rounds[num_told:], elapsed))
                num_told = len(self.rounds)

    async def _round(self, seconds: float) -> Round:
        alone = await self._window(seconds, [each for each in self.traffic if each.kind != LONG])
        beside = await self._window(seconds, self.traffic)
        return Round(alone, beside, await memory_mib(self.address))

    async def _window(self, seconds: float, traffic: Sequence[Traffic]) -> dict[str, Window]:
        now = perf_counter()
        windows = {each.kind: Window(now + SETTLE_SECONDS, now + seconds) for each in traffic}
        async with asyncio.TaskGroup() as group:
            for each in traffic:
                requests, window = self.requests[each.kind], windows[each.kind]
                for _ in range(self.clients[each.kind]):
                    client = send_until_end(self.address, requests, window, each.sign)
                    group.create_task(client)
        return windows

    def report(self) -> MixedReport:
        """What it came to.

        Raises:
            BenchError: No short text was embedded.
        """
        alone, beside = (
            [each.alone for each in self.rounds],
            [each.beside for each in self.rounds],
        )
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
    """Of one kind, in windows of one sort."""
    seconds = sum(each[kind].end - each[kind].start for each in windows)
    ordered = ordered_ms(kind, windows)
    rate = len(ordered) / seconds
    p50, p99 = percentile(ordered, 50), percentile(ordered, 99)
    return KindFigures(clients, len(ordered), rate, p50, p99)


def ordered_ms(kind: str, windows: Iterable[Mapping[str, Window]]) -> list[float]:
    """Latencies of one kind in all of these, ascending, in milliseconds."""
    return sorted(1000 * seconds for each in windows for seconds in each[kind].latencies)


def p99_of(known: Mapping[str, KindFigures]) -> float:
    """Short embeddings' p99, in milliseconds.

    Raises:
        BenchError: There is none.
    """
    p99 = known[SHORT].p99_ms
    if p99 is None:
        raise BenchError("the windows ended without one short embedding; raise --duration")
    return p99


def errors_of(windows: Iterable[Mapping[str, Window]]) -> dict[str, dict[str, int]]:
    """By kind of client, where there are any."""
    errors: dict[str, Counter[str]] = {}
    for each in windows:
        for kind, window in each.items():
            errors.setdefault(kind, Counter()).update(window.errors)
    return {kind: dict(counts) for kind, counts in errors.items() if counts}


def interval(rounds: Sequence[Round], elapsed: float) -> Interval:
    """What these rounds came to, for a line."""
    alone, beside = [each.alone for each in rounds], [each.beside for each in rounds]
    windows = [window for each in [*alone, *beside] for window in each.values()]
    return Interval(
        seconds=elapsed,
        requests=sum(len(window.latencies) for window in windows),
        alone_p99_ms=percentile(ordered_ms(SHORT, alone), 99),
        beside_p99_ms=percentile(ordered_ms(SHORT, beside), 99),
        errors=sum(window.errors.total() for window in windows),
        memory_mib=rounds[-1].memory_mib,
    )


async def memory_mib(address: Address) -> float:
    """What the workers and the process that owns them have resident.

    Raises:
        RequestError: The server does not answer.
    """
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
    """Measures windows without and with long embeddings, in turn.

    Args:
        url: The server.
        pair: What is translated, and asked about.
        sentences: To make texts of.
        clients: How many of each kind.
        max_tokens: Of the longest text to embed.
        seconds: Of the whole run.
        rounds: Windows of each sort.
        on_interval: Told about once a minute how it goes.

    Raises:
        BenchError: The server does not answer as it should.
    """
    address = Address.parse(url)
    traffic = uvloop.run(all_traffic(address, pair, sentences, max_tokens))
    load = MixedLoad(address, pair, traffic, clients.by_kind)
    load.run(rounds, seconds, on_interval)
    return load.report()
