"""Ports, readiness and the end of the servers that the benchmarks start."""

import http.client
import signal
import socket
import subprocess
import time
from contextlib import closing

from benchmarks.environments import MissingError

HOST = "127.0.0.1"
READY_SECONDS = 180.0
STOP_SECONDS = 60.0
POLL_SECONDS = 0.02


def free_ports(count: int) -> list[int]:
    probes = [socket.socket() for _ in range(count)]
    try:
        for probe in probes:
            probe.bind((HOST, 0))
        return [probe.getsockname()[1] for probe in probes]
    finally:
        for probe in probes:
            probe.close()


def get(port: int, path: str, seconds: float = 10.0) -> tuple[int, bytes]:
    """Returns status and body of a GET; status 0 if the server cannot be reached."""
    with closing(http.client.HTTPConnection(HOST, port, timeout=seconds)) as connection:
        try:
            connection.request("GET", path)
            reply = connection.getresponse()
            return reply.status, reply.read()
        except (OSError, http.client.HTTPException):
            return 0, b""


def until_ready(process: "subprocess.Popen[bytes]", port: int, path: str = "/health/ready") -> None:
    """Waits until a server answers 200.

    Raises:
        MissingError: The server ended, or was not ready in READY_SECONDS.
    """
    deadline = time.monotonic() + READY_SECONDS
    while get(port, path)[0] != 200:
        if process.poll() is not None:
            raise MissingError(f"the server ended with status {process.returncode}")
        if time.monotonic() > deadline:
            raise MissingError(f"the server was not ready in {READY_SECONDS:.0f} s")
        time.sleep(POLL_SECONDS)


def stop(process: "subprocess.Popen[bytes]", seconds: float = STOP_SECONDS) -> int:
    """Sends SIGTERM, kills a process that does not end in time, and returns the exit status."""
    process.send_signal(signal.SIGTERM)
    try:
        return process.wait(seconds)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
        return -signal.SIGKILL
