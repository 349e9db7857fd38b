"""The load on a server, against a server of this process."""

import os
import threading
from typing import Any

import pytest

from benchmarks import load
from benchmarks.environments import MissingError
from benchmarks.load import Load, Shape
from tests.unit.bench_server import Answer, reply_bytes, served

BODIES = [f'{{"q":"text {i} é"}}' for i in range(5)]


def run(answer: Answer, clients: int = 1, **shape: Any) -> Load:
    with served(answer) as url:
        port = int(url.rpartition(":")[2])
        return load.run(port, BODIES, Shape(clients, **shape), os.getpid())


def test_bodies_are_sent_in_turn_from_the_offset() -> None:
    seen: list[str] = []

    def answer(_path: str, body: bytes) -> bytes:
        seen.append(body.decode())
        return reply_bytes(200, body)

    found = run(answer, seconds=0.1, offset=8)
    assert found.requests > 0
    assert found.errors == {}
    assert seen[:7] == [BODIES[(3 + i) % 5] for i in range(7)]


def test_closed_loop_never_has_more_requests_than_clients() -> None:
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

    assert run(answer, clients=3, seconds=0.2).requests >= 6
    assert most == 3


def test_window_waits_for_two_replies_a_client() -> None:
    def answer(_path: str, body: bytes) -> bytes:
        threading.Event().wait(0.15)  # longer than half the window, which therefore grows
        return reply_bytes(200, body)

    found = run(answer, clients=2, seconds=0.2, warmup=0.05)
    assert found.requests >= 4
    assert 0 < found.p50_ms <= found.p95_ms <= found.p99_ms
    assert found.rate == pytest.approx(found.requests / found.seconds, rel=1e-3)


def test_errors_are_counted_by_status() -> None:
    numbers = iter(range(10_000))

    def answer(_path: str, body: bytes) -> bytes | None:
        number = next(numbers)
        return None if number == 0 else reply_bytes(429 if number in (3, 6) else 200, body)

    found = run(answer, seconds=0.5)
    assert found.requests > 0
    assert found.errors == {"closed": 1, "429": 2}


def test_server_that_only_refuses_ends_the_load(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(load, "MAX_FAILURES", 3)
    with pytest.raises(MissingError, match="none succeeded"):
        run(lambda path, body: None, seconds=60.0)
