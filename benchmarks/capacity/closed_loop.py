"""Simulates clients that each wait for their reply, to check costs against the measured loads."""

import random
from dataclasses import dataclass

from benchmarks.bench.load import ERROR_PAUSE_SECONDS, percentile
from benchmarks.capacity.costs import Costs
from benchmarks.capacity.simulation import Machine, Request
from benchmarks.capacity.virtual_time import Clock, virtual_time

WARMUP_SECONDS = 1.0
DEADLINE_SECONDS = 60.0


@dataclass(frozen=True)
class ClosedLoop:
    """Figures of a simulated closed loop."""

    clients: int
    per_second: float  # sentences per second
    p50_ms: float  # median latency in milliseconds
    p99_ms: float  # 99th percentile of the latency in milliseconds


def closed_loop(costs: Costs, clients: int, seconds: float) -> ClosedLoop:
    """Simulates clients that send one sentence after the other."""
    generator = random.Random(1)
    found: list[float] = []
    with virtual_time(Clock()) as clock:
        machine = Machine(clock, costs)

        def send() -> None:
            sizes = [generator.choice(costs.sentences)]
            machine.send(Request(clock.now, sizes, DEADLINE_SECONDS, on_end=end))

        def end(request: Request) -> None:
            is_ok = request.outcome == "ok"
            if is_ok and clock.now > WARMUP_SECONDS:
                found.append(1000 * request.seconds)
            clock.call_later(0.0 if is_ok else ERROR_PAUSE_SECONDS, send)

        for _ in range(clients):
            clock.call_later(0.0, send)
        clock.run_until(WARMUP_SECONDS + seconds)
    ordered = sorted(found)
    p50, p99 = percentile(ordered, 50) or 0.0, percentile(ordered, 99) or 0.0
    return ClosedLoop(clients, len(ordered) / seconds, p50, p99)
