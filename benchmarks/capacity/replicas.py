"""Gives requests to simulated machines: the requests of a trace, or those of waiting clients."""

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from benchmarks.bench.load import ERROR_PAUSE_SECONDS, percentile
from benchmarks.capacity.arrivals import KINDS, Shape, Trace, day_trace, poisson, record
from benchmarks.capacity.costs import Costs
from benchmarks.capacity.simulation import Machine, Outcome, Request
from benchmarks.capacity.virtual_time import Clock, virtual_time

ALL = "all"


@dataclass(frozen=True)
class Figures:
    requests: int
    p50_ms: float  # median time of the answered requests in milliseconds
    p99_ms: float  # 99th percentile of this time
    refused: float  # share of refused requests
    failed: float  # share of requests that were late or failed

    @classmethod
    def of(cls, outcomes: Sequence[Outcome]) -> "Figures":
        ordered = sorted(1000 * each.seconds for each in outcomes if each.name == "ok")
        counts = Counter(each.name for each in outcomes)
        total = max(1, len(outcomes))
        return cls(
            len(outcomes),
            percentile(ordered, 50) or 0.0,
            percentile(ordered, 99) or 0.0,
            counts["refused"] / total,
            (len(outcomes) - counts["ok"] - counts["refused"]) / total,
        )


def by_kind(outcomes: Sequence[Outcome], trace: Trace) -> dict[str, Figures]:
    """Returns the figures of each kind of period, and of all requests."""
    groups: dict[str, list[Outcome]] = {kind: [] for kind in KINDS}
    for each in outcomes:
        groups[trace.kind_at(each.sent)].append(each)
    found = {kind: Figures.of(group) for kind, group in groups.items() if group}
    return {**found, ALL: Figures.of(outcomes)}


WARMUP_SECONDS = 1.0
DEADLINE_SECONDS = 60.0


def closed_loop(costs: Costs, clients: int, seconds: float) -> Figures:
    """Simulates clients that send one sentence after the other."""
    generator = random.Random(1)
    found: list[Outcome] = []
    with virtual_time(Clock()) as clock:
        machine = Machine(clock, costs)

        def send() -> None:
            sizes = [generator.choice(costs.sentences)]
            machine.send(Request(clock.now, sizes, DEADLINE_SECONDS, on_end=end))

        def end(request: Request) -> None:
            is_ok = request.outcome == "ok"
            if is_ok and clock.now > WARMUP_SECONDS:
                found.append(Outcome(request.sent, "ok", request.seconds))
            clock.call_later(0.0 if is_ok else ERROR_PAUSE_SECONDS, send)

        for _ in range(clients):
            clock.call_later(0.0, send)
        clock.run_until(WARMUP_SECONDS + seconds)
    return Figures.of(found)


SATURATING_CLIENTS = 128
CAPACITY_SECONDS = 5.0
LOOK_AHEAD_SECONDS = 1.0
"""Arrivals are scheduled this far ahead, so that the queue of events stays short."""

BURST_FACTOR = 2.0
BURST_SECONDS = 5.0
CALM_SECONDS = 25.0
"""A bursty load has BURST_FACTOR times its mean rate in bursts of about BURST_SECONDS."""


def simulate(
    costs: Costs, trace: Trace, deadline_seconds: float, replicas: int = 1
) -> list[Outcome]:
    """Returns the outcomes of the requests of a trace.

    Each request goes to the less busy one of two random machines, as Envoy's least-request
    balancer chooses.
    """
    generator = random.Random(1)
    outcomes: list[Outcome] = []

    def end(request: Request) -> None:
        outcomes.append(Outcome(request.sent, request.outcome, request.seconds))

    with virtual_time(Clock()) as clock:
        machines = [Machine(clock, costs) for _ in range(replicas)]

        def send(request: Request) -> None:
            chosen = generator.choices(machines, k=2)
            min(chosen, key=lambda machine: machine.in_progress).send(request)

        for moment, text in zip(trace.moments, trace.texts, strict=True):
            if moment > clock.now + LOOK_AHEAD_SECONDS:
                clock.run_until(moment - LOOK_AHEAD_SECONDS)
            request = Request(moment, [costs.sentences[text]], deadline_seconds, on_end=end)
            clock.call_later(moment - clock.now, partial(send, request))
        clock.run_until(clock.now + 2 * LOOK_AHEAD_SECONDS + deadline_seconds)
    return sorted(outcomes)


@dataclass(frozen=True)
class Point:
    """Waiting times at one utilisation."""

    replicas: int  # number of machines
    utilisation: float  # offered rate divided by the capacity of all machines
    poisson: Figures  # figures of a load with a constant mean rate
    bursty: Figures  # figures of a load with the same mean rate and bursts


def capacity(costs: Costs) -> float:
    """Returns the sentences per second of a machine with many clients."""
    return closed_loop(costs, SATURATING_CLIENTS, CAPACITY_SECONDS).requests / CAPACITY_SECONDS


def bursty(mean: float, seconds: float) -> Shape:
    share = BURST_SECONDS / (BURST_SECONDS + CALM_SECONDS)
    calm = mean * (1 - BURST_FACTOR * share) / (1 - share)
    burst = BURST_FACTOR * mean
    return Shape(seconds, calm, 0.0, burst, 0.0, BURST_SECONDS, CALM_SECONDS)


def point(
    costs: Costs, replicas: int, utilisation: float, seconds: float, deadline_seconds: float
) -> Point:
    """Simulates both loads at one utilisation; `costs.capacity` is the capacity of a machine."""
    mean = utilisation * costs.capacity * replicas
    num_texts = len(costs.sentences)
    steady = record(poisson(Shape(seconds, mean)), num_texts, 1)
    uneven = day_trace(bursty(mean, seconds), num_texts)
    found = [
        Figures.of(simulate(costs, trace, deadline_seconds, replicas)) for trace in (steady, uneven)
    ]
    return Point(replicas, utilisation, *found)
