"""The load generator in C, against a server of this process."""

import json
import shutil
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.unit.bench_server import Answer, reply_bytes, served

SOURCE = Path(__file__).resolve().parents[2] / "benchmarks" / "loadgen.c"
NUM_BODIES = 5

Run = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if shutil.which("cc") is None:
        pytest.skip("there is no C compiler")
    path = tmp_path_factory.mktemp("loadgen") / "loadgen"
    warnings = ["-Wall", "-Wextra", "-Werror"]
    subprocess.run(["cc", "-O2", *warnings, "-o", path, SOURCE, "-lm"], check=True)
    return path


@pytest.fixture
def load(program: Path, tmp_path: Path) -> Run:
    bodies = tmp_path / "bodies"
    bodies.write_text("".join(f'{{"q":"text {i} é"}}\n' for i in range(NUM_BODIES)), "utf-8")

    def run(answer: Answer, *flags: str) -> "subprocess.CompletedProcess[str]":
        with served(answer) as url:
            port = url.rpartition(":")[2]
            command = [str(program), "--port", port, "--path", "/translate"]
            command += ["--bodies", str(bodies), *flags]
            return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)

    return run


def figures(done: "subprocess.CompletedProcess[str]") -> dict[str, Any]:
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[:2] == ["start", "end"]
    found: dict[str, Any] = json.loads(lines[2])
    return found


def echo(_path: str, body: bytes) -> bytes:
    return reply_bytes(200, body)


def test_replies_stand_in_the_order_of_requests(load: Run, tmp_path: Path) -> None:
    replies = tmp_path / "replies"
    words = ["--clients", "4", "--requests", "13", "--offset", "3", "--replies", str(replies)]
    report = figures(load(echo, *words))
    assert report["requests"] == 13
    assert report["errors"] == {}
    expected = [f'{{"q":"text {(3 + i) % NUM_BODIES} é"}}' for i in range(13)]
    assert replies.read_text("utf-8").split("\n")[:-1] == expected


def test_reply_with_a_line_break_stays_on_one_line(load: Run, tmp_path: Path) -> None:
    replies = tmp_path / "replies"

    def answer(_path: str, _body: bytes) -> bytes:
        return reply_bytes(200, b"a\r\nb")

    figures(load(answer, "--requests", "2", "--replies", str(replies)))
    assert replies.read_bytes() == b"a  b\na  b\n"


def test_closed_loop_never_has_more_requests_than_clients(load: Run) -> None:
    """Nor fewer for long: the first three must be open at once for any to be answered."""
    together = threading.Barrier(3)
    open_now, most, lock = 0, 0, threading.Lock()

    def answer(_path: str, body: bytes) -> bytes:
        nonlocal open_now, most
        with lock:
            open_now += 1
            most = max(most, open_now)
        together.wait(30)
        with lock:
            open_now -= 1
        return reply_bytes(200, body)

    report = figures(load(answer, "--clients", "3", "--requests", "30"))
    assert report["requests"] == 30
    assert most == 3


def test_window_waits_for_two_replies_a_client(load: Run) -> None:
    def answer(_path: str, body: bytes) -> bytes:
        threading.Event().wait(0.15)  # longer than half the window, which therefore grows
        return reply_bytes(200, body)

    report = figures(load(answer, "--clients", "2", "--seconds", "0.2", "--warmup", "0.05"))
    assert report["requests"] >= 4
    assert 0 < report["p50_ms"] <= report["p95_ms"] <= report["p99_ms"] <= report["max_ms"]
    assert report["rate"] == pytest.approx(report["requests"] / report["seconds"], rel=1e-3)


@pytest.mark.parametrize("kind", [["--poisson"], []])
def test_open_loop_sends_what_is_due(load: Run, kind: list[str]) -> None:
    words = ["--clients", "4", "--requests", "30", "--rate", "500", *kind]
    assert figures(load(echo, *words))["requests"] == 30


def test_open_loop_counts_what_no_client_was_free_for(load: Run) -> None:
    """One client, whose only reply comes when the window has long closed."""
    late = threading.Event()
    timer = threading.Timer(0.6, late.set)

    def answer(_path: str, body: bytes) -> bytes:
        if not timer.is_alive() and not late.is_set():
            timer.start()
        late.wait(30)
        return reply_bytes(200, body)

    report = figures(load(answer, "--clients", "1", "--seconds", "0.195", "--rate", "100"))
    timer.join()
    assert report["requests"] == 1
    assert report["errors"] == {"unsent": 19}


def test_errors_are_counted_by_status(load: Run) -> None:
    numbers = iter(range(100))

    def answer(_path: str, body: bytes) -> bytes:
        return reply_bytes(200 if next(numbers) % 3 else 429, body)

    report = figures(load(answer, "--requests", "6"))
    assert report["requests"] == 4
    assert report["errors"] == {"429": 2}


def test_connection_that_ends_is_counted_and_opened_again(load: Run) -> None:
    numbers = iter(range(100))

    def answer(_path: str, body: bytes) -> bytes | None:
        return reply_bytes(200, body) if next(numbers) else None

    report = figures(load(answer, "--requests", "4"))
    assert report["requests"] == 3
    assert report["errors"] == {"closed": 1}


def test_reply_that_never_comes_is_a_timeout(load: Run) -> None:
    is_over = threading.Event()

    def answer(_path: str, _body: bytes) -> None:
        is_over.wait(1)

    report = figures(load(answer, "--requests", "1", "--timeout", "0.2"))
    is_over.set()
    assert report["errors"] == {"timeout": 1}


def test_server_without_content_length_is_refused(load: Run) -> None:
    def answer(_path: str, _body: bytes) -> bytes:
        return b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"

    done = load(answer, "--requests", "1")
    assert done.returncode == 1
    assert "Content-Length" in done.stderr


@pytest.mark.parametrize(
    "words", [[], ["--requests", "1", "--seconds", "1"], ["--requests"], ["--what", "1"]]
)
def test_bad_arguments_are_refused(load: Run, words: list[str]) -> None:
    done = load(echo, *words)
    assert done.returncode == 1
    assert done.stderr.startswith("loadgen: ")
