"""Gives the requests of a trace to simulated machines behind a load balancer."""

import random
from dataclasses import dataclass, replace
from functools import partial

from benchmarks.capacity.arrivals import Shape, Trace, day_trace, poisson, record
from benchmarks.capacity.closed_loop import ClosedLoop, closed_loop
from benchmarks.capacity.costs import Costs
from benchmarks.capacity.figures import Figures
from benchmarks.capacity.simulation import Machine, Outcome, Request
from benchmarks.capacity.virtual_time import Clock, virtual_time

SATURATING_CLIENTS = 128
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
    return closed_loop(costs, SATURATING_CLIENTS, 5.0).per_second


def capacity_of_cores(costs: Costs, num_cores: int) -> ClosedLoop:
    machine = replace(costs, num_workers=num_cores, num_cores=float(num_cores))
    return closed_loop(machine, SATURATING_CLIENTS * max(1, num_cores // 2), 3.0)


def bursty(mean: float, seconds: float) -> Shape:
    """Returns the shape of a bursty load with a mean rate."""
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
