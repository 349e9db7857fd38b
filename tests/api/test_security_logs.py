"""The log: lines that no client can forge, JSON, and one format for all processes."""

import io
import json
import logging
import os
import re
import subprocess
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from datetime import datetime

import pytest

from service import logs
from service.errors import fault
from service.logs import LogFormat
from tests.api.conftest import Serve

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


@pytest.mark.slow
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
