"""Replicas, and the parts of the measurement: even load, killed replica, rolling restart, scaling.

A replica is a server that can be killed, and restarted on the same port.
"""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TypeVar

from prometheus_client.parser import text_string_to_metric_families

from benchmarks import load
from benchmarks.environments import MissingError
from benchmarks.load import WINDOW_SECONDS, Load, Replies, Shape
from benchmarks.processes import READY_SECONDS, get, stop, until_ready
from benchmarks.replicas.envoy import CLUSTER, Envoy
from benchmarks.sleeping.pace import Pace

REQUESTS = "regard_requests_total"


@dataclass(frozen=True)
class Plan:
    """Describes how replicas are started."""

    pace: Pace | None  # times of a sleeping model; None for the built-in models
    settings: dict[str, str] = field(default_factory=dict)  # environment variables of each replica

    def command(self, port: int) -> list[str]:
        """Returns the command that starts a replica."""
        if self.pace is None:
            return [sys.executable, "-m", "service", "serve", "--port", str(port)]
        command = [sys.executable, "-m", "benchmarks.sleeping.server", "--port", str(port)]
        return [*command, *self.pace.arguments]


class Replica:
    """A replica that is being started; `until_ready` waits for it."""

    def __init__(self, plan: Plan, port: int, core: int | None = None) -> None:
        self.plan = plan
        self.port = port
        self.core = core
        self.start()

    def start(self) -> None:
        """Starts the server."""
        environment = {
            **os.environ,
            "REGARD_DRAIN_DELAY_SECONDS": "3",
            "REGARD_SHARE_SENTENCES": "false",
            "REGARD_LOG_LEVEL": "error",
            **self.plan.settings,
        }
        command = self.plan.command(self.port)
        if self.core is not None:
            command = ["taskset", "--cpu-list", str(self.core), *command]
        self.process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL)

    def until_ready(self) -> None:
        until_ready(self.process, self.port)

    def computed(self) -> int:
        """Returns the number of translations that the server has answered since its start."""
        text = get(self.port, "/metrics")[1].decode()
        lines = [line for line in text.splitlines(True) if REQUESTS in line]
        families = text_string_to_metric_families("".join(lines))
        wanted = {"task": "translate", "outcome": "ok"}
        return sum(
            int(sample.value)
            for family in families
            for sample in family.samples
            if sample.name == REQUESTS and wanted.items() <= sample.labels.items()
        )

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def stop(self) -> int:
        return stop(self.process)


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
    envoy: Envoy, bodies: list[str], shape: Shape, act: Callable[[], T]
) -> tuple[Load, T]:
    """Calls a function while a load runs, after the warm-up of the load."""
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(load.run, envoy.port, bodies, shape, envoy.process.pid)
        time.sleep(shape.warmup)
        result = act()
        if running.done():
            raise MissingError("the load ended too early; raise --seconds")
        return running.result(), result


def even(envoy: Envoy, bodies: list[str], shape: Shape) -> Figures:
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

    done, (at, ready, healthy) = under_load(envoy, bodies, shape, kill)
    answered = envoy.answered()
    twice = sum(each.computed() - answered[each.port] for each in others)
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

    done, (statuses, seconds) = under_load(envoy, bodies, shape, restart)
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
