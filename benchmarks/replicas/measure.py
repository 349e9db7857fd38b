"""The parts of the measurement: an even load, a killed replica, a rolling restart, scaling."""

import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TypeVar

from benchmarks import load
from benchmarks.environments import MissingError
from benchmarks.load import Load, Shape
from benchmarks.replicas.envoy import CLUSTER, LISTENED, Envoy
from benchmarks.replicas.replica import READY_SECONDS, Replica

T = TypeVar("T")
Figures = dict[str, float]

SAMPLE_SECONDS = 0.1
WINDOW_SECONDS = 2.0
FULL_SHARE = 0.95
WARMUP_SECONDS = 3.0
RETRIES = {
    "retried": f"{CLUSTER}upstream_rq_retry",
    "retried with success": f"{CLUSTER}upstream_rq_retry_success",
    "over the retry budget": f"{CLUSTER}upstream_rq_retry_overflow",
    "connections lost": f"{CLUSTER}upstream_cx_destroy_remote_with_active_rq",
    "connections refused": f"{CLUSTER}upstream_cx_connect_fail",
}


@dataclass
class Series:
    """Numbers of replies with status 2xx at points of time, from Envoy's counters."""

    envoy: Envoy
    times: list[float] = field(default_factory=list)
    counts: list[int] = field(default_factory=list)

    def sample(self) -> None:
        self.counts.append(self.envoy.stats().get(f"{LISTENED}downstream_rq_2xx", 0))
        self.times.append(time.monotonic())

    def rate(self, begin: float, end: float) -> float:
        """Returns the replies per second between two times."""
        inside = [i for i, when in enumerate(self.times) if begin <= when <= end]
        if len(inside) < 2:
            return 0.0
        first, last = inside[0], inside[-1]
        return (self.counts[last] - self.counts[first]) / (self.times[last] - self.times[first])

    def full_from(self, begin: float, rate: float) -> float | None:
        """Returns the first time after `begin` from which a window has nearly this rate."""
        for when in self.times:
            end = when + WINDOW_SECONDS
            if (
                when >= begin
                and end <= self.times[-1]
                and self.rate(when, end) >= FULL_SHARE * rate
            ):
                return when
        return None

    def lowest(self, begin: float, end: float) -> float:
        starts = [when for when in self.times if begin <= when <= end - WINDOW_SECONDS]
        return min((self.rate(when, when + WINDOW_SECONDS) for when in starts), default=0.0)


def under_load(
    envoy: Envoy, bodies: list[str], shape: Shape, act: Callable[[], T]
) -> tuple[Load, Series, T]:
    """Calls a function while a load runs, after the warm-up of the load."""
    series, stop = Series(envoy), threading.Event()

    def watch() -> None:
        while not stop.wait(SAMPLE_SECONDS):
            series.sample()

    with ThreadPoolExecutor(2) as pool:
        watching = pool.submit(watch)
        running = pool.submit(load.run, envoy.port, bodies, shape, envoy.process.pid)
        try:
            time.sleep(shape.warmup)
            result = act()
            if running.done() and shape.seconds:
                raise MissingError("the load ended too early; raise --seconds")
            return running.result(), series, result
        finally:
            stop.set()
            watching.result()


def even(envoy: Envoy, bodies: list[str], shape: Shape) -> Figures:
    """Measures how evenly a load is divided, and the CPU time of the proxy."""

    def measured() -> list[int]:
        before = envoy.answered()
        time.sleep(shape.seconds - 1)
        return [count - before[port] for port, count in sorted(envoy.answered().items())]

    done, _, counts = under_load(envoy, bodies, shape, measured)
    mean = sum(counts) / len(counts)
    return {
        **_summary(done),
        "largest deviation %": 100 * max(abs(count / mean - 1) for count in counts),
        **{f"replica {number}": count for number, count in enumerate(counts, 1)},
    }


def killed(envoy: Envoy, replicas: Sequence[Replica], bodies: list[str], shape: Shape) -> Figures:
    """Kills a replica under load, starts it again at once, and measures until the rate is back."""
    before = envoy.stats()
    first, *others = replicas

    def kill() -> tuple[float, float, float]:
        time.sleep(5)
        at = time.monotonic()
        first.kill()
        first.start()
        first.until_ready()
        ready = time.monotonic()
        envoy.until_healthy([each.port for each in replicas], READY_SECONDS)
        healthy = time.monotonic()
        time.sleep(2 * WINDOW_SECONDS + 1)
        return at, ready, healthy

    done, series, (at, ready, healthy) = under_load(envoy, bodies, shape, kill)
    answered = envoy.answered()
    twice = sum(each.computed() - answered[each.port] for each in others)
    rate = series.rate(at - 5, at)
    full = series.full_from(ready, rate)
    return {
        **_summary(done),
        **_retries(before, envoy.stats()),
        "computed twice": twice,
        "rate before": rate,
        "lowest share of the rate %": 100 * series.lowest(at, healthy) / rate,
        "ready after s": ready - at,
        "full rate s after ready": -1.0 if full is None else full - ready,
    }


def rolled(envoy: Envoy, replicas: Sequence[Replica], bodies: list[str], shape: Shape) -> Figures:
    """Restarts all replicas under load, one after the other."""
    before = envoy.stats()

    def restart() -> tuple[list[int], float]:
        began, statuses = time.monotonic(), []
        for each in replicas:
            statuses.append(each.stop())
            each.start()
            each.until_ready()
            envoy.until_healthy([other.port for other in replicas], READY_SECONDS)
        return statuses, time.monotonic() - began

    done, _, (statuses, seconds) = under_load(envoy, bodies, shape, restart)
    return {
        **_summary(done),
        **_retries(before, envoy.stats()),
        "restarts": len(statuses),
        "exits with another status than 0": sum(status != 0 for status in statuses),
        "seconds of all restarts": seconds,
    }


def plain(envoy: Envoy, bodies: list[str], shape: Shape) -> Figures:
    return _summary(load.run(envoy.port, bodies, shape, envoy.process.pid))


def _summary(done: Load) -> Figures:
    return {
        "requests": done.requests,
        "failed": sum(done.errors.values()),
        **{f"failed: {kind}": count for kind, count in done.errors.items()},
        "requests/s": done.rate,
        "p50 ms": done.p50_ms,
        "p99 ms": done.p99_ms,
        "proxy CPU s per 1,000": 1000 * done.server_cpu_seconds / max(1, done.requests),
    }


def _retries(before: dict[str, int], after: dict[str, int]) -> Figures:
    return {key: after.get(name, 0) - before.get(name, 0) for key, name in RETRIES.items()}
