"""Starts a server, sends it mixed load for a long time, and causes a fault every few seconds.

Every request must end in one reply or in a closed connection. A connection may close only if its
client hung up, or if an HTTP process was killed or stopped. At the end the server must have no
request. The command prints the growth of memory after the first minutes. It exits with 1 if the
growth is too large or another condition does not hold.

    python -m benchmarks.soak --source FILE
    python -m benchmarks.soak --source FILE --minutes 4 --settle 1
"""

import argparse
import asyncio
import json
import os
import random
import signal
import sys
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from statistics import linear_regression

import uvloop
from prometheus_client.parser import text_string_to_metric_families

from benchmarks import tree
from benchmarks.bench.client import Address, Connection, RequestError
from benchmarks.engines import Contestant
from benchmarks.peers.protocol import read_lines
from benchmarks.servers import Server

CLIENTS = 12
THINK_SECONDS = 0.2
TIMEOUT_MS = 20_000
GRACE_SECONDS = 5.0
"""A reply may come this much later than the time limit of its request."""

HANG_UP_SHARE = 0.05
MAX_PATIENCE_SECONDS = 0.3
"""Longest time after which a client hangs up."""

WORKER_TIMEOUT_SECONDS = 5.0
LOST_SECONDS = 15.0
"""After an HTTP process was killed or stopped, its connections may close within this time."""

SAMPLE_SECONDS = 5.0
MAX_SLOPE_MIB = 1.0
EMPTY_SECONDS = 30.0

WORKER = "service.workers.worker"
HTTP_WORKER = "service.http_workers.http_worker"
SETTINGS = {
    "REGARD_WORKER_TIMEOUT_SECONDS": str(WORKER_TIMEOUT_SECONDS),
    "REGARD_ALLOWED_HOSTS": "*",
}
GAUGES = ("regard_inflight_requests", "regard_queue_depth", "regard_queue_tokens")
"""Gauges that are 0 when the server has no request."""


@dataclass
class Tally:
    """Counts of the clients."""

    sent: int = 0  # number of requests
    statuses: Counter[int] = field(default_factory=Counter)  # number of replies by status
    hung_up: int = 0  # number of requests whose client hung up
    cut: int = 0  # number of requests whose connection closed after a fault of an HTTP process
    # number of requests whose connection closed at another time, by kind of error
    lost: Counter[str] = field(default_factory=Counter)
    longest_seconds: float = 0.0  # longest time until a reply
    exposed_until: float = 0.0  # value of time.monotonic until which connections may close

    def count(self, status: int, seconds: float) -> None:
        self.statuses[status] += 1
        self.longest_seconds = max(self.longest_seconds, seconds)


class Requests:
    """Makes random requests of all kinds."""

    def __init__(self, lines: Sequence[str], generator: random.Random) -> None:
        self.lines = lines
        self.generator = generator

    def __call__(self, address: Address) -> bytes:
        make = self.generator.choices(
            [self.sentence, self.batch, self.embedding, self.attention, self.detection, self.bad],
            [60, 8, 12, 4, 12, 4],
        )[0]
        path, body = make()
        return address.request("POST", path, json.dumps(body).encode(), TIMEOUT_MS)

    def sentence(self) -> tuple[str, object]:
        return "/translate", {"q": self._line(), "source": "en", "target": "pt"}

    def batch(self) -> tuple[str, object]:
        texts = [self._line() for _ in range(self.generator.choice((4, 16, 64)))]
        return "/translate", {"q": texts, "source": "auto", "target": "pt"}

    def embedding(self) -> tuple[str, object]:
        return "/embed", {"inputs": [self._line() for _ in range(8)]}

    def attention(self) -> tuple[str, object]:
        return "/attention", {"q": self._line(), "source": "en", "target": "pt"}

    def detection(self) -> tuple[str, object]:
        return "/detect", {"q": self._line()}

    def bad(self) -> tuple[str, object]:
        return "/translate", {"q": 7, "source": "en", "target": "tlh"}

    def _line(self) -> str:
        return self.generator.choice(self.lines)


class Client:
    """Sends one request after the other, on one connection where possible."""

    def __init__(self, address: Address, requests: Requests, tally: Tally) -> None:
        self.address, self.requests, self.tally = address, requests, tally
        self.connection: Connection | None = None

    async def run(self, end: float) -> None:
        """Sends requests until time.monotonic reaches `end`."""
        generator = self.requests.generator
        while time.monotonic() < end:
            await asyncio.sleep(generator.expovariate(1 / THINK_SECONDS))
            patience = None
            if generator.random() < HANG_UP_SHARE:
                patience = generator.uniform(0.0, MAX_PATIENCE_SECONDS)
            await self.send(patience)
        self.close()

    async def send(self, patience: float | None = None) -> None:
        """Sends one request, and hangs up after `patience` seconds."""
        try:
            connection = await self._connect()
        except RequestError as error:
            self._lose(error, is_sent=False)
        else:
            await self._send(connection, patience)

    def close(self) -> None:
        if self.connection is not None:
            self.connection.close()

    async def _connect(self) -> Connection:
        if self.connection is None or self.connection.is_closed:
            self.connection = None
            self.connection = await Connection.open(self.address)
        return self.connection

    async def _send(self, connection: Connection, patience: float | None) -> None:
        self.connection = None
        self.tally.sent += 1
        began = time.monotonic()
        try:
            async with asyncio.timeout(patience):
                reply = await connection.send(self.requests(self.address))
        except TimeoutError:
            self.tally.hung_up += 1
        except RequestError as error:
            self._lose(error, is_sent=True)
        else:
            self.tally.count(reply.status, time.monotonic() - began)
            self.connection = None if reply.is_last else connection

    def _lose(self, error: RequestError, is_sent: bool) -> None:
        if time.monotonic() > self.tally.exposed_until:
            self.tally.lost[error.kind] += 1
        elif is_sent:
            self.tally.cut += 1


class Faults:
    """Causes faults in a server."""

    def __init__(self, server: Server, address: Address, requests: Requests, tally: Tally) -> None:
        self.server, self.address = server, address
        self.requests, self.tally = requests, tally
        self.counts: Counter[str] = Counter()

    async def run(self, period_seconds: float, end: float) -> None:
        """Causes a random fault in each period until shortly before `end` (time.monotonic)."""
        kinds: list[Callable[[], Awaitable[None]]] = [
            self.kill_worker,
            self.stop_worker,
            self.kill_http_worker,
            self.stop_http_worker,
            self.half_bodies,
            self.burst,
            self.endless_header,
        ]
        # The server has some time without new faults at the end, to replace its processes.
        while time.monotonic() < end - 4 * period_seconds:
            await asyncio.sleep(period_seconds)
            fault = self.requests.generator.choice(kinds)
            self.counts[fault.__name__] += 1
            await fault()

    async def kill_worker(self) -> None:
        self._signal(WORKER, signal.SIGKILL)

    async def stop_worker(self) -> None:
        self._signal(WORKER, signal.SIGSTOP)

    async def kill_http_worker(self) -> None:
        self._signal(HTTP_WORKER, signal.SIGKILL)

    async def stop_http_worker(self) -> None:
        self._signal(HTTP_WORKER, signal.SIGSTOP)

    async def half_bodies(self) -> None:
        request = self.address.request("POST", "/translate", b"x" * 1_000_000)
        await asyncio.gather(*(self._abandon(request[: len(request) // 2]) for _ in range(20)))

    async def endless_header(self) -> None:
        await self._abandon(b"GET / HTTP/1.1\r\nHost: a\r\n" + b"x-name: value\r\n" * 14_000)

    async def burst(self) -> None:
        """Sends 200 requests at once, each on a connection of its own."""
        clients = [Client(self.address, self.requests, self.tally) for _ in range(200)]
        await asyncio.gather(*(each.send() for each in clients))
        for each in clients:
            each.close()

    def _signal(self, module: str, number: int) -> None:
        pids = processes(self.server.pid, module)
        if not pids:
            return
        if module == HTTP_WORKER:
            # LOST_SECONDS is more than twice the time after which a silent process is killed.
            self.tally.exposed_until = time.monotonic() + LOST_SECONDS
        with suppress(ProcessLookupError):
            os.kill(self.requests.generator.choice(pids), number)

    async def _abandon(self, data: bytes) -> None:
        with suppress(OSError, RuntimeError):
            _, writer = await asyncio.open_connection(self.address.host, self.address.port)
            writer.write(data)
            await asyncio.sleep(0.5)
            writer.close()


def processes(root: int, module: str) -> list[int]:
    """Returns the ids of the processes below `root` that run a module."""
    found = []
    for pid in tree.members(root):
        with suppress(OSError):
            if module.encode() in (tree.PROC / str(pid) / "cmdline").read_bytes():
                found.append(pid)
    return found


async def watch(pid: int, samples: list[tuple[float, float]], end: float) -> None:
    """Adds samples until `end`: (minutes, resident memory of the main process in MiB)."""
    began = time.monotonic()
    while time.monotonic() < end:
        samples.append(((time.monotonic() - began) / 60, tree.resident_mib(pid)))
        await asyncio.sleep(SAMPLE_SECONDS)


async def remaining(address: Address) -> dict[str, float]:
    """Waits until the server has no request or time is up; returns the gauges that are not 0."""
    end = time.monotonic() + EMPTY_SECONDS
    while True:
        connection = await Connection.open(address)
        reply = await connection.send(address.request("GET", "/metrics"))
        connection.close()
        families = text_string_to_metric_families(reply.body.decode())
        samples = [sample for family in families for sample in family.samples]
        left = {s.name: s.value for s in samples if s.name in GAUGES and s.value}
        if not left or time.monotonic() > end:
            return left
        await asyncio.sleep(1.0)


async def soak(
    server: Server, source: Path, minutes: float, period_seconds: float, seed: int
) -> tuple[Tally, Faults, list[tuple[float, float]], dict[str, float]]:
    """Runs load and faults for some minutes, then waits until the server is empty."""
    address = Address("127.0.0.1", server.port, "")
    requests = Requests(read_lines(str(source)), random.Random(seed))
    tally = Tally()
    faults = Faults(server, address, requests, tally)
    samples: list[tuple[float, float]] = []
    end = time.monotonic() + 60 * minutes
    async with asyncio.TaskGroup() as group:
        group.create_task(watch(server.pid, samples, end))
        group.create_task(faults.run(period_seconds, end))
        for _ in range(CLIENTS):
            group.create_task(Client(address, requests, tally).run(end))
    return tally, faults, samples, await remaining(address)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--source", type=Path, required=True, help="file of English sentences")
    parser.add_argument("--minutes", type=float, default=30.0, help="length of the run")
    parser.add_argument(
        "--settle", type=float, default=5.0, help="minutes at the start without a check of memory"
    )
    parser.add_argument("--period", type=float, default=5.0, help="seconds between two faults")
    parser.add_argument("--seed", type=int, default=1, help="seed of the random choices")
    options = parser.parse_args()
    command = [sys.executable, "-m", "service", "serve", "--port", "{port}", "--http-workers", "2"]
    server = Server(Contestant("soak", command, environment=SETTINGS))
    try:
        arguments = (options.source, options.minutes, options.period, options.seed)
        tally, faults, samples, left = uvloop.run(soak(server, *arguments))
    finally:
        server.stop()
    late = [(minute, mib) for minute, mib in samples if minute >= options.settle]
    slope = linear_regression(*zip(*late, strict=True)).slope
    answered = sum(tally.statuses.values())
    limit = TIMEOUT_MS / 1000 + GRACE_SECONDS
    conditions = {
        "no request lost": not tally.lost,
        "sent = answered + hung up + cut": tally.sent == answered + tally.hung_up + tally.cut,
        f"longest reply under {limit:g} s": tally.longest_seconds < limit,
        f"memory grows less than {MAX_SLOPE_MIB:g} MiB a minute": slope < MAX_SLOPE_MIB,
        "server is empty": not left,
        "server ended with 0": server.process.returncode == 0,
    }
    print(f"faults: {sum(faults.counts.values())} {dict(faults.counts)}")
    print(
        f"sent {tally.sent}, hung up {tally.hung_up}, cut by a fault of an HTTP process {tally.cut}"
    )
    print(f"answered {answered}: {dict(sorted(tally.statuses.items()))}, lost {dict(tally.lost)}")
    print(
        f"longest {tally.longest_seconds:.1f} s; memory {late[0][1]:.0f} to {late[-1][1]:.0f} MiB"
    )
    print(f"slope {slope:.2f} MiB a minute")
    print(f"left on the server: {left}")
    for condition, holds in conditions.items():
        print(f"{'yes' if holds else 'NO':4}{condition}")
    sys.exit(0 if all(conditions.values()) else 1)


if __name__ == "__main__":
    main()
