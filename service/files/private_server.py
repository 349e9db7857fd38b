"""The server that a command uses: a running server at a given URL, or a private server.

A private server is a process that listens on the loopback interface only. It ends when the command
ends, even if the command is killed.
"""

import ctypes
import http.client
import os
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import MappingProxyType
from typing import BinaryIO

from service.ipc.processes import module_command

HOST = "127.0.0.1"
READY_LIMIT_SECONDS = 600.0
STOP_LIMIT_SECONDS = 30.0
REPLY_LIMIT_SECONDS = 5.0
POLL_SECONDS = 0.1
SHOWN_LINES = 20
SHOWN_BYTES = 10_000

PUBLIC_SETTINGS = ("REGARD_API_KEYS", "REGARD_MONTHLY_CHARACTERS", "REGARD_ADMIN_PORT")
"""Settings that a private server does not get."""

PR_SET_PDEATHSIG = 1
"""Option of prctl, from linux/prctl.h."""

ServeCommand = Callable[[int], list[str]]
"""Returns the command that starts a server on a port."""


class ServerStartError(Exception):
    """A private server could not be started, or ended early. The message has its last output."""


def serve_command(port: int, models: str | None = None) -> list[str]:
    command = [*module_command("service"), "serve", "--host", HOST, "--port", str(port)]
    return command if models is None else [*command, "--models", models]


@contextmanager
def running_server(
    url: str | None,
    command: ServeCommand = serve_command,
    ready_limit_seconds: float = READY_LIMIT_SECONDS,
    variables: Mapping[str, str] = MappingProxyType({}),
) -> Iterator[str]:
    """Yields the base URL of a server.

    Args:
        url: Address of a running server, or None to start a private server for the context.
        ready_limit_seconds: Longest time until /health/ready answers 200.
        variables: Environment variables of a private server; this process's own take precedence.
    """
    if url is not None:
        yield url
        return
    with reserved_port() as port, tempfile.TemporaryFile() as log:
        process = _start(command(port), log, variables)
        try:
            _wait_until_ready(process, port, ready_limit_seconds, log)
            yield f"http://{HOST}:{port}"
        except Exception as error:
            if process.poll() is not None and not isinstance(error, ServerStartError):
                raise _ended(process, log) from error
            raise
        finally:
            _stop(process)


@contextmanager
def reserved_port() -> Iterator[int]:
    # A bound socket keeps the port from other programs; SO_REUSEADDR lets the server listen too.
    with socket.socket() as held:
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        held.bind((HOST, 0))
        yield held.getsockname()[1]


def _start(
    command: list[str], log: BinaryIO, variables: Mapping[str, str]
) -> subprocess.Popen[bytes]:
    """Starts a server that ends with this process, and that Ctrl-C does not interrupt."""
    libc = ctypes.CDLL(None)
    kept = {name: value for name, value in os.environ.items() if name not in PUBLIC_SETTINGS}
    return subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=log,
        stderr=subprocess.STDOUT,
        env={**variables, **kept},
        process_group=0,
        preexec_fn=lambda: libc.prctl(PR_SET_PDEATHSIG, signal.SIGTERM),
    )


def _wait_until_ready(
    process: subprocess.Popen[bytes], port: int, limit_seconds: float, log: BinaryIO
) -> None:
    deadline = time.monotonic() + limit_seconds
    while not _is_ready(port):
        if process.poll() is not None:
            raise _ended(process, log)
        if time.monotonic() > deadline:
            raise _failure(f"the server was not ready in {limit_seconds:g} s", log)
        time.sleep(POLL_SECONDS)


def _is_ready(port: int) -> bool:
    connection = http.client.HTTPConnection(HOST, port, timeout=REPLY_LIMIT_SECONDS)
    try:
        connection.request("GET", "/health/ready")
        return connection.getresponse().status == 200
    except (OSError, http.client.HTTPException):  # the server does not listen yet
        return False
    finally:
        connection.close()


def _ended(process: subprocess.Popen[bytes], log: BinaryIO) -> ServerStartError:
    return _failure(f"the server ended with status {process.returncode}", log)


def _failure(what: str, log: BinaryIO) -> ServerStartError:
    log.seek(max(0, log.seek(0, os.SEEK_END) - SHOWN_BYTES))
    lines = log.read().decode("utf-8", errors="replace").splitlines()[-SHOWN_LINES:]
    output = "\n".join(f"  {line}" for line in lines) or "  (nothing)"
    return ServerStartError(
        f"{what}; to use a running server, give --url. Last lines of output:\n{output}"
    )


def _stop(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(STOP_LIMIT_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
