"""The private server of a command: its start, its environment, and its end in every case."""

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import NoReturn

import pytest

from service.files.private_server import ServerStartError, running_server
from tests.unit.bench_server import bench
from tests.workers import until

READY_SERVER = """
import http.server, os, pathlib, signal, sys
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        asked.append(self.path)
        self.send_response(503 if len(asked) == 1 else 200)
        self.send_header("Content-Length", "0")
        self.end_headers()
def stop(*_):
    pathlib.Path(sys.argv[2]).write_text(" ".join(asked))
    sys.exit(0)
asked = [name for name in os.environ if name.startswith("REGARD_")]
sys.stdin.read()
signal.signal(signal.SIGTERM, stop)
http.server.HTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
"""


def test_own_server_is_awaited_until_ready_and_terminated(tmp_path: Path) -> None:
    asked = tmp_path / "asked"
    with running_server(
        None, lambda port: [sys.executable, "-c", READY_SERVER, str(port), str(asked)]
    ) as url:
        assert url.startswith("http://127.0.0.1:")
        assert not asked.exists()
    assert asked.read_text() == "/health/ready /health/ready"


def test_port_of_the_own_server_is_given_to_no_other_program(tmp_path: Path) -> None:
    """The answers of another server were once taken for those of the own server."""

    def command(port: int) -> list[str]:
        with socket.socket() as other, pytest.raises(OSError, match="in use"):
            other.bind(("127.0.0.1", port))
        return [sys.executable, "-c", READY_SERVER, str(port), str(tmp_path / "asked")]

    with running_server(None, command):
        pass


@pytest.mark.parametrize(
    ("script", "limit_seconds", "message"),
    [
        ("import sys; sys.exit('no model en-xx')", 60.0, r"status 1(.|\n)*no model en-xx"),
        ("import time; time.sleep(600)", 0.3, r"not ready in 0.3 s"),
    ],
    ids=["ends early", "never listens"],
)
def test_own_server_that_does_not_get_ready_is_given_up(
    script: str, limit_seconds: float, message: str
) -> None:
    with (
        pytest.raises(ServerStartError, match=message),
        running_server(None, lambda port: [sys.executable, "-c", script], limit_seconds),
    ):
        pass


def test_variables_of_this_process_come_before_given_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    script = "import os, sys; sys.exit(os.environ['REGARD_A'] + os.environ['REGARD_B'])"
    monkeypatch.setenv("REGARD_A", "of this process,")
    with (
        pytest.raises(ServerStartError, match="of this process, given"),
        running_server(
            None,
            lambda port: [sys.executable, "-c", script],
            variables={"REGARD_A": "unused", "REGARD_B": " given"},
        ),
    ):
        pass


def test_bench_starts_servers_that_compute_equal_sentences_separately(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    started: list[Mapping[str, str]] = []

    def start(command: list[str], log: object, variables: Mapping[str, str]) -> NoReturn:
        started.append(variables)
        raise ServerStartError("stopped by the test")

    monkeypatch.setattr("service.files.private_server._start", start)
    for name in ("load", "mixed", "bulk", "overload"):
        assert bench(name).exit_code == 1
    assert started == [{"REGARD_SHARE_SENTENCES": "false"}] * 4


DYING_SERVER = """
import http.server, os, pathlib, sys
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
pathlib.Path(sys.argv[2]).write_text(str(os.getpid()))
http.server.HTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).handle_request()
sys.exit("out of memory")
"""


def test_error_after_the_end_of_the_server_shows_its_last_lines(tmp_path: Path) -> None:
    pid = tmp_path / "pid"

    def command(port: int) -> list[str]:
        return [sys.executable, "-c", DYING_SERVER, str(port), str(pid)]

    def use_until_it_ends() -> None:
        with running_server(None, command):
            status = Path("/proc", pid.read_text(), "stat")
            until(lambda: " Z " in status.read_text())
            raise ValueError("no answer")

    with pytest.raises(ServerStartError, match=r"status 1(.|\n)*out of memory") as caught:
        use_until_it_ends()
    assert str(caught.value.__cause__) == "no answer"


COMMAND = """
import os, signal, sys, time
from service.files.private_server import running_server
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell ignores it in background jobs
os.environ["REGARD_API_KEYS"] = os.environ["REGARD_MONTHLY_CHARACTERS"] = "7"
os.environ["REGARD_LOG_LEVEL"] = "error"
with running_server(None, lambda port: [sys.executable, "-c", sys.argv[1], str(port), sys.argv[2]]):
    print("ready", flush=True)
    time.sleep(600)
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT], ids=lambda number: number.name)
def test_server_ends_with_its_command(number: signal.Signals, tmp_path: Path) -> None:
    """Ctrl-C of a terminal reaches all processes of the group; the server is in another one."""
    asked = tmp_path / "asked"
    process = subprocess.Popen(
        [sys.executable, "-c", COMMAND, READY_SERVER, str(asked)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        process_group=0,
    )
    with process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        os.killpg(process.pid, number)
    until(lambda: asked.exists() and asked.read_text())
    assert asked.read_text().startswith("REGARD_LOG_LEVEL /health/ready")
