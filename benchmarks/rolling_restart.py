"""Restarts two replicas behind HAProxy, one after the other, and counts the requests that fail.

    apt-get install haproxy
    python -m benchmarks.rolling_restart --rounds 2 --clients 16

Every client sends one sentence after the other through the proxy, over a persistent connection.
HAProxy repeats no request (`retries 0`), so every request that a replica loses is counted.
"""

import argparse
import asyncio
import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import httpx

READY_SECONDS = 120.0
STOP_SECONDS = 60.0
BODY = {"q": "The weather is nice today.", "source": "en", "target": "pt"}

HAPROXY = """
global
    maxconn 1000
defaults
    mode http
    timeout connect 5s
    timeout client 60s
    timeout server 60s
    retries 0
listen regard
    bind 127.0.0.1:{port}
    balance roundrobin
    option httpchk GET /health/ready
    http-check expect status 200
    default-server check inter 200ms fastinter 200ms downinter 200ms fall 1 rise 1
{servers}
"""
"""Configuration of the proxy. A replica gets no requests after its first failed check."""


def free_port() -> int:
    """Returns a port that is free now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


class Replica:
    """One server, which can be restarted on its port.

    Args:
        delay_seconds: Value of REGARD_DRAIN_DELAY_SECONDS.
        settings: More environment variables.
    """

    def __init__(self, delay_seconds: float, settings: dict[str, str]) -> None:
        self.port = free_port()
        self.environment = {
            **os.environ,
            "REGARD_PORT": str(self.port),
            "REGARD_DRAIN_DELAY_SECONDS": str(delay_seconds),
            "REGARD_LOG_LEVEL": "error",
            "OMP_WAIT_POLICY": "PASSIVE",
            **settings,
        }
        self.start()

    def start(self) -> None:
        """Starts the server."""
        command = [sys.executable, "-m", "service", "serve"]
        self.process = subprocess.Popen(
            command, env=self.environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )

    async def until_ready(self) -> None:
        """Waits until the server is ready."""
        deadline = time.monotonic() + READY_SECONDS
        while not await is_ready(self.port):
            if time.monotonic() > deadline or self.process.poll() is not None:
                raise RuntimeError(f"the replica on port {self.port} was not ready in time")
            await asyncio.sleep(0.1)

    async def restart(self) -> int:
        """Restarts the server with SIGTERM, and returns the exit status of the old process."""
        self.process.send_signal(signal.SIGTERM)
        status = await asyncio.to_thread(self.process.wait, STOP_SECONDS)
        self.start()
        await self.until_ready()
        return status

    def kill(self) -> None:
        """Ends the server."""
        self.process.terminate()
        try:
            self.process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


async def is_ready(port: int) -> bool:
    """Returns whether a server, or the proxy in front of servers, is ready."""
    async with httpx.AsyncClient(trust_env=False) as client:
        try:
            reply = await client.get(f"http://127.0.0.1:{port}/health/ready")
        except httpx.HTTPError:
            return False
        return reply.status_code == 200


@contextlib.contextmanager
def haproxy(ports: list[int]) -> Iterator[int]:
    """Runs HAProxy in front of servers on these ports; yields the port of HAProxy."""
    program = shutil.which("haproxy")
    if program is None:
        raise SystemExit("haproxy is missing; install it: apt-get install haproxy")
    port = free_port()
    servers = "\n".join(f"    server r{number} 127.0.0.1:{number}" for number in ports)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "haproxy.cfg")
        path.write_text(HAPROXY.format(port=port, servers=servers), encoding="utf-8")
        process = subprocess.Popen([program, "-db", "-q", "-f", str(path)])
        try:
            yield port
        finally:
            process.kill()
            process.wait()


@contextlib.asynccontextmanager
async def load(port: int, clients: int) -> AsyncIterator[Counter[str]]:
    """Sends requests during the context; counts the statuses, and the errors by their names."""
    outcomes: Counter[str] = Counter()
    stopping = asyncio.Event()

    async def ask() -> None:
        async with httpx.AsyncClient(trust_env=False, timeout=60) as client:
            while not stopping.is_set():
                try:
                    reply = await client.post(f"http://127.0.0.1:{port}/translate", json=BODY)
                    outcomes[str(reply.status_code)] += 1
                except httpx.HTTPError as error:
                    outcomes[type(error).__name__] += 1

    tasks = [asyncio.create_task(ask()) for _ in range(clients)]
    try:
        yield outcomes
    finally:
        stopping.set()
        await asyncio.gather(*tasks)


async def rolling_restart(
    rounds: int, clients: int, delay_seconds: float, settings: dict[str, str]
) -> tuple[Counter[str], list[int]]:
    """Restarts each of two replicas `rounds` times under load.

    Returns:
        The number of requests by status or name of the error, and the exit status at each restart.
    """
    replicas = [Replica(delay_seconds, settings) for _ in range(2)]
    try:
        for each in replicas:
            await each.until_ready()
        with haproxy([each.port for each in replicas]) as port:
            while not await is_ready(port):
                await asyncio.sleep(0.1)
            async with load(port, clients) as outcomes:
                statuses = []
                for each in replicas * rounds:
                    statuses.append(await each.restart())
                    await asyncio.sleep(1)  # HAProxy notices that the replica is ready again
            return outcomes, statuses
    finally:
        for each in replicas:
            each.kill()


def main() -> None:
    """Prints the outcomes; ends with status 1 if a request failed or an exit status was not 0."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--clients", type=int, default=16)
    parser.add_argument("--delay", type=float, default=2.0, help="REGARD_DRAIN_DELAY_SECONDS")
    arguments = parser.parse_args()
    work = rolling_restart(arguments.rounds, arguments.clients, arguments.delay, {})
    outcomes, statuses = asyncio.run(work)
    print(f"exit statuses {statuses}, requests {dict(outcomes)}")
    sys.exit(set(outcomes) != {"200"} or set(statuses) != {0})


if __name__ == "__main__":
    main()
