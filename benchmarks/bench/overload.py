"""Measures a server that gets more requests than it can compute.

Each request has one sentence, and a deadline in the header X-Request-Timeout-Ms.
"""

import asyncio
import itertools
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from statistics import median
from time import perf_counter

from benchmarks.bench.client import Address, BenchError, Reply, RequestError
from benchmarks.bench.load import OpenLoop, percentile, run_load, steady
from benchmarks.bench.mixed import memory_mib
from benchmarks.bench.texts import translate_request, with_other_ends

CLIENTS = 64
"""Number of clients of the closed loop that measures the capacity."""

CAPACITY_SECONDS = 5.0
RECOVERY_SECONDS = 10.0
"""Length of the phase after an overload.

In this phase, the client sends requests at half of the capacity.
"""

GRACE_SECONDS = 0.1
"""A reply that arrives at most this long after its deadline still counts as in time. The server
measures the deadline from the arrival of the request, and the client from the time of sending."""

BAD_SHARE = 0.05
"""Largest share of refused, late and failed requests in a second of normal service.

The share is above 0, because a slow model cannot translate a long sentence before a short deadline.
The server refuses such a sentence even at half of its capacity.
"""

PATIENCE_SECONDS = 10.0
"""Longest wait for replies after the deadline of the last request.

After this time, requests without a reply count as failed.
"""

REFUSED = (429, 503)

SMALLEST_SHARE = 0.9
"""Smallest accepted `share_of_peak` at the highest offered rate."""


@dataclass(frozen=True)
class OverloadRun:
    """Figures of one offered rate and one deadline.

    In a report, the figures are medians of all rounds, but `errors` and `without_retry_after` are
    sums. A request is accepted if its reply has the status 200 or 504.
    """

    factor: float  # offered rate divided by the capacity
    deadline_seconds: float
    offered_per_second: float
    in_time_per_second: float  # translations that came before their deadline or GRACE_SECONDS later
    share_of_peak: float  # `in_time_per_second` / its largest value for this deadline
    accepted_p99_seconds: float | None  # a reply with status 504 counts as infinite
    late_share: float  # share of late replies and replies with 504 among the accepted requests
    refused: int
    refused_p50_ms: float | None  # time until a refusal
    without_retry_after: int  # refusals without the header Retry-After
    errors: dict[str, int]  # other failures by name
    memory_mib: float  # of workers and main process, at the end of the overload
    # seconds from the end of the overload to the end of the last bad second; 0 if there is no bad
    # second. In a bad second, more than BAD_SHARE of the requests were refused, late or failed. The
    # overload ends when its last request is sent. The client waits for the remaining replies, at
    # most PATIENCE_SECONDS after their deadline. Then it sends requests at half of the capacity.
    recovery_seconds: int


@dataclass(frozen=True)
class OverloadReport:
    """Figures of all runs."""

    pair: str
    capacity_per_second: float  # sentences of a closed loop of CLIENTS clients
    runs: list[OverloadRun]  # all rates of one deadline follow each other


@dataclass
class Outcomes:
    """Replies and failures of the requests of one phase."""

    deadline: float  # of each request, in seconds
    accepted: list[tuple[float, float]] = field(default_factory=list)  # time, seconds or infinity
    refusals: list[float] = field(default_factory=list)  # seconds
    without_retry_after: int = 0
    errors: Counter[str] = field(default_factory=Counter)  # other failures by name
    bad: list[float] = field(default_factory=list)  # when bad requests were sent

    def record(self, sent: float, now: float, reply: Reply) -> None:
        """Counts a reply."""
        seconds = now - sent
        if reply.status in (200, 504):
            self.accepted.append((now, seconds if reply.status == 200 else float("inf")))
            is_bad = reply.status == 504 or seconds > self.deadline + GRACE_SECONDS
        else:
            is_bad = True
            if reply.status in REFUSED:
                self.refusals.append(seconds)
                self.without_retry_after += not reply.has_retry_after
            else:
                self.errors[str(reply.status)] += 1
        if is_bad:
            self.bad.append(sent)

    def record_failure(self, sent: float, error: RequestError) -> None:
        self.errors[error.kind] += 1
        self.bad.append(sent)


def parse_numbers(text: str) -> list[float]:
    """Parses numbers above 0, such as `0.5,1,2`."""
    try:
        numbers = [float(part) for part in text.split(",")]
    except ValueError:
        numbers = [0.0]
    if not all(0 < number < float("inf") for number in numbers):
        raise BenchError(f"{text!r} must be numbers above 0; give 2, or 0.5,1,2")
    return numbers


async def run_overload(
    url: str,
    pair: str,
    sentences: Sequence[str],
    factors: Sequence[float],
    deadlines: Sequence[float],
    rounds: int,
    seconds: float,
    on_run: Callable[[OverloadRun], None] = lambda _: None,
) -> OverloadReport:
    """Measures the capacity, then each combination of a deadline and an offered rate.

    Each round measures every rate once, so that a change in the speed of the machine affects all
    rates.
    """
    address = Address.parse(url)
    load = await run_load(url, pair, sentences, CLIENTS, 2.0, CAPACITY_SECONDS)
    capacity = load.sentences_per_second
    if not capacity:
        raise BenchError(f"no sentence was translated within {CAPACITY_SECONDS:g} s")
    runs: list[OverloadRun] = []
    for deadline in deadlines:
        bodies = itertools.cycle(
            [
                translate_request(address, pair, text, True, round(1000 * deadline))
                for text in with_other_ends(sentences)
            ]
        )
        found: list[list[OverloadRun]] = [[] for _ in factors]
        for _ in range(rounds):
            for factor, same in zip(factors, found, strict=True):
                loop = OpenLoop(address, bodies, deadline + PATIENCE_SECONDS)
                run = await _measure(loop, factor, capacity, deadline, seconds)
                on_run(run)
                same.append(run)
        medians = [median_run(same) for same in found]
        peak = max(run.in_time_per_second for run in medians) or 1.0
        runs += [replace(run, share_of_peak=run.in_time_per_second / peak) for run in medians]
    return OverloadReport(pair, capacity, runs)


def median_run(runs: Sequence[OverloadRun]) -> OverloadRun:
    """Returns the medians of runs with the same rate and the same deadline."""
    errors: Counter[str] = Counter()
    for run in runs:
        errors.update(run.errors)
    return replace(
        runs[0],
        in_time_per_second=median(run.in_time_per_second for run in runs),
        accepted_p99_seconds=_median_of_known([run.accepted_p99_seconds for run in runs]),
        late_share=median(run.late_share for run in runs),
        refused=round(median(run.refused for run in runs)),
        refused_p50_ms=_median_of_known([run.refused_p50_ms for run in runs]),
        without_retry_after=sum(run.without_retry_after for run in runs),
        errors=dict(errors),
        memory_mib=median(run.memory_mib for run in runs),
        recovery_seconds=round(median(run.recovery_seconds for run in runs)),
    )


def _median_of_known(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return median(known) if known else None


async def _measure(
    loop: OpenLoop, factor: float, capacity: float, deadline: float, seconds: float
) -> OverloadRun:
    outcomes = Outcomes(deadline)
    settle = min(deadline, seconds)
    begin = perf_counter()
    memory = asyncio.create_task(_memory_after(loop.address, settle + seconds))
    moments = steady(factor * capacity, settle + seconds)
    end = await loop.run(moments, outcomes)
    in_time = [
        took
        for finished, took in outcomes.accepted
        if begin + settle <= finished <= end and took <= deadline + GRACE_SECONDS
    ]
    after = Outcomes(deadline)
    await loop.run(steady(capacity / 2, RECOVERY_SECONDS), after)
    accepted = sorted(took for _, took in outcomes.accepted)
    num_late = sum(took > deadline + GRACE_SECONDS for took in accepted)
    refused_p50 = percentile(sorted(outcomes.refusals), 50)
    return OverloadRun(
        factor=factor,
        deadline_seconds=deadline,
        offered_per_second=factor * capacity,
        in_time_per_second=len(in_time) / (end - begin - settle),
        share_of_peak=1.0,
        accepted_p99_seconds=percentile(accepted, 99),
        late_share=num_late / len(accepted) if accepted else 0.0,
        refused=len(outcomes.refusals),
        refused_p50_ms=None if refused_p50 is None else 1000 * refused_p50,
        without_retry_after=outcomes.without_retry_after,
        errors=dict(outcomes.errors),
        memory_mib=await memory,
        recovery_seconds=recovery_seconds([sent - end for sent in after.bad], capacity / 2),
    )


def recovery_seconds(bad: Sequence[float], per_second: float) -> int:
    counts = Counter(map(int, bad))
    return max((1 + at for at, n in counts.items() if n > BAD_SHARE * per_second), default=0)


async def _memory_after(address: Address, seconds: float) -> float:
    await asyncio.sleep(seconds)
    return await memory_mib(address)
