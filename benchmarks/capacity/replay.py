"""Sends the requests of a trace to a running server, at the times of the trace."""

import itertools
import signal
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import uvloop

from benchmarks.bench.client import Address, Reply, RequestError
from benchmarks.bench.load import OpenLoop
from benchmarks.bench.overload import REFUSED
from benchmarks.bench.texts import translate_request
from benchmarks.capacity.arrivals import Shape, day_trace
from benchmarks.capacity.costs import Saved
from benchmarks.capacity.simulation import Outcome

PATIENCE_SECONDS = 10.0
"""A request has failed if it has no reply this long after its deadline."""


@dataclass
class Recorder:
    """Keeps the outcome of every request."""

    # outcomes of the requests; `sent` is a time by perf_counter
    outcomes: list[Outcome] = field(default_factory=list)

    def record(self, sent: float, now: float, reply: Reply) -> None:
        name = {200: "ok", 504: "late"}.get(reply.status, str(reply.status))
        name = "refused" if reply.status in REFUSED else name
        self.outcomes.append(Outcome(sent, name, now - sent))

    def record_failure(self, sent: float, error: RequestError) -> None:
        self.outcomes.append(Outcome(sent, error.kind, 0.0))


@dataclass(frozen=True)
class Replay(Saved):
    """A measured trace."""

    content = "measurement"
    command = "replay"

    shape: Shape  # shape of the trace
    num_texts: int  # number of different sentences
    deadline_seconds: float  # deadline of each request
    outcomes: list[Outcome]  # outcomes of all requests; `sent` counts from the start of the trace
    client_seconds: float  # CPU seconds of this process for each request
    most_behind_seconds: float  # longest delay of a request after its time in the trace

    @staticmethod
    def parsed(found: dict[str, Any]) -> dict[str, Any]:
        outcomes = [Outcome(*each) for each in found["outcomes"]]
        return {**found, "shape": Shape(**found["shape"]), "outcomes": outcomes}


def until_interrupted(moments: Sequence[float]) -> Iterator[float]:
    """Yields the moments until the process gets SIGINT."""
    received: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, frame: received.append(number))
    try:
        yield from itertools.takewhile(lambda moment: not received, moments)
    finally:
        signal.signal(signal.SIGINT, before)


def replay(
    url: str, pair: str, sentences: Sequence[str], shape: Shape, deadline_seconds: float
) -> Replay:
    """Sends each request of a trace at its time, also if the server refuses or is late.

    Ctrl-C ends the trace early; the requests until then are kept.
    """
    trace = day_trace(shape, len(sentences))
    address = Address.parse(url)
    timeout_ms = round(1000 * deadline_seconds)
    encoded = [translate_request(address, pair, text, True, timeout_ms) for text in sentences]
    requests = (encoded[index] for index in itertools.chain(trace.texts, itertools.repeat(0)))
    recorder = Recorder()
    loop = OpenLoop(address, requests, deadline_seconds + PATIENCE_SECONDS)
    began, cpu_began = time.perf_counter(), time.process_time()
    uvloop.run(loop.run(until_interrupted(trace.moments), recorder))
    used = time.process_time() - cpu_began
    outcomes = sorted(each._replace(sent=each.sent - began) for each in recorder.outcomes)
    behind = [each.sent - moment for each, moment in zip(outcomes, trace.moments, strict=False)]
    client_seconds = used / max(1, len(outcomes))
    return Replay(
        shape, len(sentences), deadline_seconds, outcomes, client_seconds, max(behind, default=0.0)
    )
