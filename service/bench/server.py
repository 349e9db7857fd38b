"""The server under measurement: the one at a given URL, or one started for the run."""

import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx

from service.bench.client import BenchError

HOST = "127.0.0.1"
READY_LIMIT_SECONDS = 120.0
STOP_LIMIT_SECONDS = 30.0
POLL_SECONDS = 0.1
SHOWN_LINES = 20


def serve_command(port: int) -> list[str]:
    """Give the command that serves on the loopback, with the settings of this environment."""
    return [sys.executable, "-m", "service", "serve", "--host", HOST, "--port", str(port)]


@contextmanager
def running_server(
    url: str | None,
    command: Callable[[int], list[str]] = serve_command,
    ready_limit_seconds: float = READY_LIMIT_SECONDS,
) -> Iterator[str]:
    """Give the base URL of a server: `url`, or else a server that lives as long as the context.

    Args:
        url: base URL of a server that already runs.
        command: arguments of the process to start, for a port.
        ready_limit_seconds: how long the process may take until /health/ready answers 200.

    Raises:
        BenchError: the process ended or was not ready in time; its last lines are shown.
    """
    if url is not None:
        yield url.rstrip("/")
        return
    port = _free_port()
    own_url = f"http://{HOST}:{port}"
    with tempfile.NamedTemporaryFile(suffix=".log") as log:
        process = subprocess.Popen(command(port), stdout=log, stderr=subprocess.STDOUT)
        try:
            _wait_until_ready(process, own_url, ready_limit_seconds, Path(log.name))
            yield own_url
        finally:
            _stop(process)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        port: int = probe.getsockname()[1]
        return port


def _wait_until_ready(
    process: subprocess.Popen[bytes], url: str, limit_seconds: float, log: Path
) -> None:
    deadline = time.monotonic() + limit_seconds
    while not _is_ready(url):
        if process.poll() is not None:
            raise BenchError(_failure(f"the server ended with status {process.returncode}", log))
        if time.monotonic() > deadline:
            raise BenchError(_failure(f"{url} was not ready in {limit_seconds:g} s", log))
        time.sleep(POLL_SECONDS)


def _is_ready(url: str) -> bool:
    try:
        reply = httpx.get(f"{url}/health/ready", trust_env=False)
    except httpx.TransportError:  # it does not listen yet
        return False
    return reply.status_code == httpx.codes.OK


def _failure(what: str, log: Path) -> str:
    lines = log.read_text("utf-8", errors="replace").splitlines()[-SHOWN_LINES:]
    output = "\n".join(f"  {line}" for line in lines) or "  (nothing)"
    return f"{what}; give --url to measure a running server. It said last:\n{output}"


def _stop(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(STOP_LIMIT_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
