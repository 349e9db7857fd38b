"""The parts of the measurement: even load, killed replica, rolling restart, and rates."""

import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from benchmarks import load
from benchmarks.bench.load import increase
from benchmarks.environments import MissingError
from benchmarks.load import WINDOW_SECONDS, Load, Replies, Shape
from benchmarks.processes import READY_SECONDS, Server, get
from benchmarks.replicas.envoy import CLUSTER, Envoy

T = TypeVar("T")
Figures = dict[str, float]

WARMUP_SECONDS = 3.0
RETRIES = {
    "retried": f"{CLUSTER}upstream_rq_retry",
    "retried with success": f"{CLUSTER}upstream_rq_retry_success",
    "over the retry budget": f"{CLUSTER}upstream_rq_retry_overflow",
    "connections lost": f"{CLUSTER}upstream_cx_destroy_remote_with_active_rq",
    "connections refused": f"{CLUSTER}upstream_cx_connect_fail",
}


def under_load(
    envoy: Envoy, bodies: Sequence[str], shape: Shape, act: Callable[[], T]
) -> tuple[Load, T]:
    """Calls a function while a load runs, after the warm-up of the load."""
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(load.run, envoy.port, bodies, shape, envoy.process.pid)
        time.sleep(shape.warmup)
        result = act()
        if running.done():
            raise MissingError("the load ended too early; raise --seconds")
        return running.result(), result


def even(envoy: Envoy, bodies: Sequence[str], shape: Shape) -> Figures:
    """Measures how evenly a load is divided, and the CPU time of the proxy."""

    def measured() -> list[int]:
        before = envoy.answered()
        time.sleep(shape.seconds - 1)
        return [count - before[port] for port, count in sorted(envoy.answered().items())]

    done, counts = under_load(envoy, bodies, shape, measured)
    mean = sum(counts) / len(counts)
    return {
        **_summary(done),
        "largest deviation %": 100 * max(abs(count / mean - 1) for count in counts),
        **{f"replica {number}": count for number, count in enumerate(counts, 1)},
    }


def num_computed(replica: Server) -> float:
    """Returns the number of translations that a server has answered since its start."""
    metrics = get(replica.port, "/metrics")[1].decode()
    return increase("", metrics, "regard_requests_total", task="translate", outcome="ok")


def killed(
    envoy: Envoy, replicas: Sequence[Server], bodies: Sequence[str], shape: Shape
) -> Figures:
    """Kills a replica under load, starts it again at once, and measures until the rate is back."""
    before = envoy.stats()
    first, *others = replicas

    def kill() -> tuple[float, float, float]:
        time.sleep(5)
        at = time.perf_counter()
        first.process.kill()
        first.wait()
        first.start()
        first.until_ready()
        ready = time.perf_counter()
        envoy.until_healthy([each.port for each in replicas], READY_SECONDS)
        healthy = time.perf_counter()
        time.sleep(2 * WINDOW_SECONDS + 1)
        return at, ready, healthy

    done, (at, ready, healthy) = under_load(envoy, bodies, shape, kill)
    answered = envoy.answered()
    twice = sum(num_computed(each) - answered[each.port] for each in others)
    replies = Replies(done.ends)
    rate = replies.rate(at - 5, at)
    full = replies.full_from(ready, rate)
    return {
        **_summary(done),
        **_retries(before, envoy.stats()),
        "computed twice": twice,
        "rate before": rate,
        "lowest share of the rate %": 100 * replies.lowest(at, healthy) / rate,
        "ready after s": ready - at,
        "full rate s after ready": -1.0 if full is None else full - ready,
    }


def rolled(
    envoy: Envoy, replicas: Sequence[Server], bodies: Sequence[str], shape: Shape
) -> Figures:
    """Restarts all replicas under load, one after the other."""
    before = envoy.stats()

    def restart() -> tuple[list[int], float]:
        began, statuses = time.perf_counter(), []
        for each in replicas:
            statuses.append(each.stop())
            each.start()
            each.until_ready()
            envoy.until_healthy([other.port for other in replicas], READY_SECONDS)
        return statuses, time.perf_counter() - began

    done, (statuses, seconds) = under_load(envoy, bodies, shape, restart)
    return {
        **_summary(done),
        **_retries(before, envoy.stats()),
        "restarts": len(statuses),
        "exits with another status than 0": sum(status != 0 for status in statuses),
        "seconds of all restarts": seconds,
    }


def plain(envoy: Envoy, bodies: Sequence[str], shape: Shape) -> Figures:
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
