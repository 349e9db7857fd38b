"""Several HTTP workers: one server to its clients, whichever process answers."""

import asyncio
import json
import os
import signal
import socket
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import httpx
import pytest

from model.errors import CheckpointNotFoundError
from service.errors import (
    OverloadedError,
    UnavailableError,
)
from service.ipc import processes
from service.ipc.processes import Process
from tests.api.conftest import ServeApart
from tests.api.loading import starter
from tests.api.servers import ApartServer, assert_error, make_settings, translation
from tests.api.test_shutdown import program
from tests.workers import LIMIT_SECONDS, Script, Threads, until

LONG = "The quick brown fox jumps over the lazy dog. " * 120
OK = {"task": "translate", "model": "en-pt", "outcome": "ok"}


def ask(server: ApartServer, q: str | list[str]) -> socket.socket:
    """Returns the connection of a client that has sent a whole request."""
    body = json.dumps(translation(q)).encode()
    connection = server.connect()
    connection.sendall(
        b"POST /translate HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        b"Connection: close\r\nContent-Length: %d\r\n\r\n" % len(body) + body
    )
    return connection


def read(connection: socket.socket) -> bytes:
    """Returns the bytes that arrive until the server closes the connection."""
    parts = []
    with connection:
        while part := connection.recv(65536):
            parts.append(part)
    return b"".join(parts)


def ask_each(server: ApartServer, script: Script, count: int) -> list[list[socket.socket]]:
    """Sends `count` requests to each HTTP worker; while one is stopped, the other gets them all."""
    first, second = server.pids
    connections = []
    for pid, other in ((first, second), (second, first)):
        expected = len(script.admitted) + count
        with stopped(other):
            connections.append([ask(server, f"For {pid}, {number}.") for number in range(count)])
            until(partial(has_admitted, script, expected))
    return connections


def has_admitted(script: Script, count: int) -> bool:
    return len(script.admitted) == count


@contextmanager
def stopped(pid: int) -> Iterator[None]:
    """Stops a process for a while."""
    os.kill(pid, signal.SIGSTOP)
    until(lambda: "(stopped)" in Path(f"/proc/{pid}/status").read_text("utf-8"))
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


def is_alive(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()


def test_information_comes_from_the_main_process(serve_apart: ServeApart) -> None:
    server = serve_apart()
    for path in ("/health", "/health/ready", "/health/live"):
        assert server.get(path).json() == {"status": "ok"}
    models = server.get("/v1/models").json()["data"]
    assert [(model["id"], model["device"]) for model in models] == [
        ("en-pt", "cpu"),
        ("pt-en", "cpu"),
    ]
    assert len({model["created"] for model in models}) == 1
    assert server.post("/detect", json={"q": "Where is it?"}).json()[0]["language"] == "en"
    assert server.sample("regard_build_info", version="0.1.0") == 1


def test_server_is_not_ready_while_the_models_load(script: Script) -> None:
    script.may_load.clear()
    with ApartServer(make_settings(http_workers=2), Threads(script.load)) as server:
        server.until_listening()
        assert_error(server.get("/health"), UnavailableError, "the models are loading")
        assert_error(server.translate("Hello."), UnavailableError, "the models are loading")
        assert server.get("/health/live").status_code == 200
        assert server.get("/v1/models").json()["data"][0]["device"] is None
        script.may_load.set()
        assert server.until_ready().get("/health").status_code == 200


def test_figures_of_all_http_workers_add_up(serve_apart: ServeApart, script: Script) -> None:
    server = serve_apart()
    script.may_finish.clear()
    connections = ask_each(server, script, 3)
    assert server.sample("regard_inflight_requests", task="translate") == 6
    script.may_finish.set()
    assert all(read(each).startswith(b"HTTP/1.1 200") for pair in connections for each in pair)
    server.until_answered()
    assert server.num_requests("ok") == 6
    assert server.sample("regard_inputs_total", **OK) == 6
    stage = {"task": "translate", "model": "en-pt", "stage": "serialize"}
    assert server.sample("regard_stage_duration_seconds_count", **stage) == 6
    server.translate("Supercalifragilistic " * 60)
    server.until_answered()
    cut = {"task": "translate", "model": "en-pt"}
    assert server.sample("regard_truncated_inputs_total", **cut) == 1


def test_limits_count_all_http_workers(serve_apart: ServeApart, script: Script) -> None:
    """A short text is refused with its sentences; a long text is refused before it is split."""
    server = serve_apart(max_pending_requests=4)
    script.may_finish.clear()
    connections = ask_each(server, script, 2)
    for text in ("One more.", LONG):
        response = server.translate(text)
        assert_error(response, OverloadedError, "4 requests are in progress; the limit is 4")
    assert "tokenize" in server.translate("One more.").headers["server-timing"]
    assert "tokenize" not in server.translate(LONG).headers["server-timing"]
    script.may_finish.set()
    assert all(read(each).startswith(b"HTTP/1.1 200") for pair in connections for each in pair)
    assert server.translate(LONG).json() == {"translatedText": LONG}
    server.until_released()


def test_dead_http_worker_is_replaced_and_its_requests_are_dropped(
    serve_apart: ServeApart, script: Script
) -> None:
    server = serve_apart(max_rows=8)
    script.may_finish.clear()
    lost, kept = ask_each(server, script, 3)
    os.kill(server.pids[0], signal.SIGKILL)
    until(lambda: len(script.aborted) == 3)
    assert [read(each) for each in lost] == [b"", b"", b""]
    assert server.core.admission.requests == 3
    until(lambda: len(server.pids) == 3)
    script.may_finish.set()
    assert all(read(each).startswith(b"HTTP/1.1 200") for each in kept)
    server.until_listening().until_answered()
    assert server.sample("regard_frontend_restarts_total") == 1
    assert server.num_requests("ok") == 3
    assert server.num_requests("error", model="none") == 3
    assert server.sample("regard_decode_slots", model="en-pt", state="used") == 0
    assert server.translate("Next.").status_code == 200


def test_stopped_http_worker_is_replaced(serve_apart: ServeApart, script: Script) -> None:
    """It was never replaced: clients waited, and changes of models and SIGTERM were stuck."""
    server = serve_apart(max_rows=8, worker_timeout_seconds=5)
    script.may_finish.clear()
    lost, kept = ask_each(server, script, 2)
    os.kill(server.pids[0], signal.SIGSTOP)
    changed = asyncio.run_coroutine_threadsafe(
        server.main.announce(server.main.catalog.files), server.loop
    )
    assert [read(each) for each in lost] == [b"", b""]
    changed.result(LIMIT_SECONDS)
    until(lambda: len(server.pids) == 3)
    script.may_finish.set()
    assert all(read(each).startswith(b"HTTP/1.1 200") for each in kept)
    server.until_listening().until_released()
    assert server.sample("regard_frontend_restarts_total") == 1


def test_end_does_not_wait_for_a_stopped_http_worker(
    serve_apart: ServeApart, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SIGTERM took 40 s. While the server stops, the watchdog waits for a shorter time."""
    monkeypatch.setattr(processes, "STOP_SECONDS", 1.0)
    server = serve_apart(worker_timeout_seconds=4, drain_timeout_seconds=600)
    os.kill(server.pids[0], signal.SIGSTOP)
    server.stop()
    until(lambda: server.running.done())
    assert not any(is_alive(pid) for pid in server.pids)


def test_dead_device_worker_is_replaced_and_no_request_fails(
    serve_apart: ServeApart, script: Script
) -> None:
    server = serve_apart()
    script.may_finish.clear()
    connections = ask_each(server, script, 2)
    workers = starter(server)
    workers.started[0].kill()
    until(lambda: len(workers.started) == 2)
    script.may_finish.set()
    assert all(read(each).startswith(b"HTTP/1.1 200") for pair in connections for each in pair)
    assert server.sample("regard_engine_restarts_total") == 1


def test_end_waits_for_all_http_workers(serve_apart: ServeApart, script: Script) -> None:
    server = serve_apart()
    script.may_finish.clear()
    connections = ask_each(server, script, 2)
    server.stop()
    until(lambda: server.get("/health/ready").status_code == 503)
    assert server.core.metrics.registry.get_sample_value("regard_draining") == 1
    script.may_finish.set()
    assert all(read(each).startswith(b"HTTP/1.1 200") for pair in connections for each in pair)
    until(lambda: server.running.done())
    assert not any(is_alive(pid) for pid in server.pids)
    assert server.core.metrics.registry.get_sample_value("regard_requests_total", OK) == 4
    with pytest.raises(ConnectionRefusedError):
        server.connect()


def test_request_that_outlasts_the_drain_gets_an_error_and_is_counted(
    serve_apart: ServeApart, script: Script
) -> None:
    server = serve_apart(drain_timeout_seconds=0.2)
    script.may_finish.clear()
    connections = ask_each(server, script, 1)
    server.stop()
    for each in connections:
        head, _, body = read(each[0]).partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 503")
        assert json.loads(body)["error_type"] == "unavailable"
    until(lambda: server.running.done())
    labels = {**OK, "outcome": "unavailable"}
    assert server.core.metrics.registry.get_sample_value("regard_requests_total", labels) == 2


def test_starting_http_worker_does_not_delay_the_end(script: Script) -> None:
    with ApartServer(make_settings(http_workers=2), Threads(script.load)) as server:
        until(lambda: len(server.pids) == 2)
    assert not any(is_alive(pid) for pid in server.pids)


def test_second_interrupt_waits_for_no_request(serve_apart: ServeApart, script: Script) -> None:
    server = serve_apart()
    script.may_finish.clear()
    connections = ask_each(server, script, 1)
    for _ in range(2):
        server.loop.call_soon_threadsafe(server.main.interrupt)
    assert [read(each[0]) for each in connections] == [b"", b""]
    until(lambda: server.running.done())


def test_model_that_cannot_be_loaded_ends_the_server(script: Script) -> None:
    script.load_error = CheckpointNotFoundError("the weights are not there")
    with ApartServer(make_settings(http_workers=2), Threads(script.load)) as server:
        until(lambda: server.running.done())
        assert server.main.failure == "en-pt: the weights are not there"


@pytest.mark.slow
@pytest.mark.checkpoint
def test_http_workers_end_when_the_main_process_dies() -> None:
    """They free the port."""
    with program(REGARD_HTTP_WORKERS="2") as server:
        url = server.url()
        until(lambda: len(server.children()) == 3)
        children = server.children()
        with httpx.Client(trust_env=False, timeout=LIMIT_SECONDS) as client:
            until(lambda: client.get(f"{url}/health/ready").status_code == 200)
        server.process.kill()
        until(lambda: not any(is_alive(pid) for pid in children))
        with pytest.raises(httpx.ConnectError):
            httpx.get(url, trust_env=False, timeout=LIMIT_SECONDS)


def test_http_worker_that_cannot_be_started_is_tried_again(script: Script) -> None:
    server = ApartServer(make_settings(http_workers=2), Threads(script.load))
    starts = server.main.start_http_worker
    faults = [OSError(11, "no more processes")]

    async def start(sockets: Sequence[socket.socket]) -> Process:
        if faults:
            raise faults.pop()
        return await starts(sockets)

    server.main.start_http_worker = start
    with server:
        server.until_ready().until_listening()
        assert server.translate("Hello.").status_code == 200
        assert server.sample("regard_frontend_restarts_total") == 1
