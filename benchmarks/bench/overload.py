"""Measures a server that gets more requests than it can compute.

Each request has one sentence, and a deadline in the header X-Request-Timeout-Ms.
"""

import asyncio
import itertools
import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from statistics import median
from time import perf_counter
from typing import Any

from benchmarks.bench.client import Address, BenchError
from benchmarks.bench.load import End, OpenLoop, Window, percentile, run_load, steady
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
    pair: str
    capacity_per_second: float  # sentences of a closed loop of CLIENTS clients
    runs: list[OverloadRun]  # all rates of one deadline follow each other


def parse_numbers(text: str) -> list[float]:
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
    window, after = Window(), Window()
    settle = min(deadline, seconds)
    begin = perf_counter()
    memory = asyncio.create_task(_memory_after(loop.address, settle + seconds))
    end = await loop.run(steady(factor * capacity, settle + seconds), window)
    await loop.run(steady(capacity / 2, RECOVERY_SECONDS), after)
    return OverloadRun(
        factor=factor,
        deadline_seconds=deadline,
        offered_per_second=factor * capacity,
        in_time_per_second=sum(
            is_in_time(each, deadline) and begin + settle <= each.at <= end for each in window.ends
        )
        / (end - begin - settle),
        share_of_peak=1.0,
        memory_mib=await memory,
        recovery_seconds=recovery_seconds(
            [each.sent - end for each in after.ends if not is_in_time(each, deadline)], capacity / 2
        ),
        **outcomes(window.ends, deadline),
    )


def is_in_time(end: End, deadline: float) -> bool:
    return end.status == 200 and end.seconds <= deadline + GRACE_SECONDS


def outcomes(ends: Sequence[End], deadline: float) -> dict[str, Any]:
    """Returns the fields of an OverloadRun about accepted, refused and failed requests."""
    accepted = [each for each in ends if each.status in (200, 504)]
    refused = [each for each in ends if each.status in REFUSED]
    failed = [each for each in ends if each.status not in (200, 504, *REFUSED)]
    num_late = sum(not is_in_time(each, deadline) for each in accepted)
    seconds = sorted(each.seconds if each.status == 200 else math.inf for each in accepted)
    refused_p50 = percentile(sorted(1000 * each.seconds for each in refused), 50)
    return {
        "accepted_p99_seconds": percentile(seconds, 99),
        "late_share": num_late / len(accepted) if accepted else 0.0,
        "refused": len(refused),
        "refused_p50_ms": refused_p50,
        "without_retry_after": sum(not each.has_retry_after for each in refused),
        "errors": dict(Counter(str(each.status or each.failure) for each in failed)),
    }


def recovery_seconds(bad: Sequence[float], per_second: float) -> int:
    counts = Counter(map(int, bad))
    return max((1 + at for at, n in counts.items() if n > BAD_SHARE * per_second), default=0)


async def _memory_after(address: Address, seconds: float) -> float:
    await asyncio.sleep(seconds)
    return await memory_mib(address)
