"""The measured server: a running one at a given URL, or one started for the run."""

import asyncio
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from service.bench.client import Address, BenchError, RequestError, send_once

HOST = "127.0.0.1"
READY_LIMIT_SECONDS = 120.0
STOP_LIMIT_SECONDS = 30.0
POLL_SECONDS = 0.1
SHOWN_LINES = 20


def serve_command(port: int) -> list[str]:
    """Returns the command that serves on the loopback with the settings of the environment."""
    return [sys.executable, "-m", "service", "serve", "--host", HOST, "--port", str(port)]


@contextmanager
def running_server(
    url: str | None,
    command: Callable[[int], list[str]] = serve_command,
    ready_limit_seconds: float = READY_LIMIT_SECONDS,
) -> Iterator[str]:
    """Yields the base URL of a server.

    If `url` is None, a server is started and runs until the context ends.

    Args:
        url: Address of a running server, or None to start one.
        command: Returns the command that starts a server on a port.
        ready_limit_seconds: Longest time until /health/ready answers 200.

    Raises:
        BenchError: The started server ended, or was not ready in time; the message contains its
            last lines of output.
    """
    if url is not None:
        yield url
        return
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        address = Address(HOST, probe.getsockname()[1], "")
    with tempfile.NamedTemporaryFile(suffix=".log") as log:
        process = subprocess.Popen(command(address.port), stdout=log, stderr=subprocess.STDOUT)
        try:
            _wait_until_ready(process, address, ready_limit_seconds, Path(log.name))
            yield f"http://{HOST}:{address.port}"
        finally:
            _stop(process)


def _wait_until_ready(
    process: subprocess.Popen[bytes], address: Address, limit_seconds: float, log: Path
) -> None:
    deadline = time.monotonic() + limit_seconds
    while not asyncio.run(_is_ready(address)):
        if process.poll() is not None:
            raise _failure(f"the server ended with status {process.returncode}", log)
        if time.monotonic() > deadline:
            raise _failure(f"the server was not ready in {limit_seconds:g} s", log)
        time.sleep(POLL_SECONDS)


async def _is_ready(address: Address) -> bool:
    try:
        reply = await send_once(address, address.request("GET", "/health/ready"), 5.0)
    except RequestError:  # the server does not listen yet
        return False
    return reply.status == 200


def _failure(what: str, log: Path) -> BenchError:
    lines = log.read_text("utf-8", errors="replace").splitlines()[-SHOWN_LINES:]
    output = "\n".join(f"  {line}" for line in lines) or "  (nothing)"
    return BenchError(
        f"{what}; to measure a running server, give --url. Last lines of output:\n{output}"
    )


def _stop(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(STOP_LIMIT_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
