"""Sends the requests of a trace to a running server, at the times of the trace."""

import itertools
import signal
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import uvloop

from benchmarks.bench.client import Address
from benchmarks.bench.load import End, OpenLoop, Window
from benchmarks.bench.overload import REFUSED
from benchmarks.bench.texts import translate_request
from benchmarks.capacity.arrivals import Shape, day_trace
from benchmarks.capacity.simulation import Outcome

PATIENCE_SECONDS = 10.0
"""A request has failed if it has no reply this long after its deadline."""


def outcome_of(end: End) -> Outcome:
    name = {0: end.failure or "", 200: "ok", 504: "late"}.get(end.status, str(end.status))
    name = "refused" if end.status in REFUSED else name
    return Outcome(end.sent, name, end.seconds if end.status else 0.0)


@dataclass(frozen=True)
class Replay:
    outcomes: list[Outcome]  # outcomes of all requests; `sent` counts from the start of the trace
    client_seconds: float  # CPU seconds of this process for each request
    most_behind_seconds: float  # longest delay of a request after its time in the trace


def until_interrupted(moments: Sequence[float]) -> Iterator[float]:
    """Yields the moments until the process gets SIGINT."""
    received: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, frame: received.append(number))
    try:
        yield from itertools.takewhile(lambda moment: not received, moments)
    finally:
        signal.signal(signal.SIGINT, before)


def send(
    url: str, pair: str, sentences: Sequence[str], shape: Shape, deadline_seconds: float
) -> Replay:
    """Sends each request of a trace at its time; Ctrl-C ends the trace early."""
    trace = day_trace(shape, len(sentences))
    address = Address.parse(url)
    timeout_ms = round(1000 * deadline_seconds)
    encoded = [translate_request(address, pair, text, True, timeout_ms) for text in sentences]
    requests = (encoded[index] for index in itertools.chain(trace.texts, itertools.repeat(0)))
    window = Window()
    loop = OpenLoop(address, requests, deadline_seconds + PATIENCE_SECONDS)
    began, cpu_began = time.perf_counter(), time.process_time()
    uvloop.run(loop.run(until_interrupted(trace.moments), window))
    used = time.process_time() - cpu_began
    found = map(outcome_of, window.ends)
    outcomes = sorted(each._replace(sent=each.sent - began) for each in found)
    behind = [each.sent - moment for each, moment in zip(outcomes, trace.moments, strict=False)]
    client_seconds = used / max(1, len(outcomes))
    return Replay(outcomes, client_seconds, max(behind, default=0.0))
