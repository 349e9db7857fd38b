"""The drain after SIGTERM: the lame-duck period, refused work, and the end of open requests."""

import contextlib
import json
import math
import os
import signal
import socket
import threading
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

import httpcore
import httpx
import pytest

from tests.api.servers import read_sample, translation
from tests.api.test_shutdown import Program, program
from tests.ports import free_ports
from tests.workers import LIMIT_SECONDS, until

TEXTS = [f"Here is sentence number {number} of a long letter." for number in range(300)]


def get(url: str, path: str = "/health/ready") -> httpx.Response:
    """The response on a new connection."""
    return httpx.get(f"{url}{path}", trust_env=False, timeout=LIMIT_SECONDS)


def post(url: str, q: str | list[str] = "Hello.") -> httpx.Response:
    return httpx.post(
        f"{url}/translate", json=translation(q), trust_env=False, timeout=LIMIT_SECONDS
    )


def is_refused(url: str) -> bool:
    """Returns whether a process refuses new work; otherwise it only finds fault with the body."""
    status = httpx.post(
        f"{url}/translate", json={}, trust_env=False, timeout=LIMIT_SECONDS
    ).status_code
    assert status in (400, 503)
    return status == 503


def owner(connection: httpcore.NetworkStream, pids: Iterable[int]) -> int | None:
    """Returns the process that holds the server's end of a connection.

    Source: proc_net(5), proc_pid_fd(5)
    """
    ends = [connection.get_extra_info(name) for name in ("server_addr", "client_addr")]
    ports = [f":{port:04X}" for _, port in ends]
    rows = [row.split() for row in Path("/proc/net/tcp").read_text("ascii").splitlines()]
    names = {f"socket:[{row[9]}]" for row in rows if [row[1][-5:], row[2][-5:]] == ports}
    for pid in pids:
        with contextlib.suppress(FileNotFoundError):  # a descriptor that has just been closed
            if names & {os.readlink(each) for each in Path(f"/proc/{pid}/fd").iterdir()}:
                return pid
    return None


def until_all_answer(server: Program, url: str) -> None:
    """Waits until each HTTP worker has answered a request.

    The first signal ends an HTTP worker that does not listen yet. The server is ready without it.
    """
    left = {*server.children()} - {*server.device_workers()}

    def is_last() -> bool:
        with httpx.Client(trust_env=False, timeout=LIMIT_SECONDS) as client:
            reply = client.get(f"{url}/health/ready")
            left.discard(owner(reply.extensions["network_stream"], left))
        return not left

    until(is_last)


@contextlib.contextmanager
def ready_program(**settings: str) -> Iterator[tuple[Program, str]]:
    with program(**settings) as server:
        url = server.url()
        assert get(url, "/health/live").json() == {"status": "ok"}  # the models load still
        until(lambda: get(url).status_code == 200)
        until_all_answer(server, url)
        yield server, url


def begin(url: str, admin: str, replies: list[httpx.Response]) -> threading.Thread:
    """Begins a request, which is in progress when this returns."""
    asking = threading.Thread(target=lambda: replies.append(post(url, TEXTS)))
    asking.start()
    labels = {"task": "translate"}
    until(lambda: read_sample(get(admin, "/metrics").text, "regard_inflight_requests", labels))
    return asking


@pytest.mark.checkpoint
@pytest.mark.parametrize(
    ("http_workers", "num_children", "second"),
    [
        ("1", 1, signal.SIGTERM),
        ("2", 3, signal.SIGINT),
    ],
)
def test_requests_are_served_in_the_lame_duck_period_until_a_second_signal(
    http_workers: str, num_children: int, second: signal.Signals
) -> None:
    """The second signal ends all processes at once, although the workers are stopped."""
    settings = {"REGARD_DRAIN_DELAY_SECONDS": "600"}
    with ready_program(**settings, REGARD_HTTP_WORKERS=http_workers) as (server, url):
        server.process.send_signal(signal.SIGTERM)
        until(lambda: get(url).status_code == 503)
        refusal = get(url)
        assert "stopping" in refusal.json()["error"]
        assert refusal.headers["retry-after"] == "1"
        assert get(url, "/health/live").status_code == 200
        served = post(url)
        assert served.status_code == 200
        assert served.headers["connection"] == "close"
        metrics = get(url, "/metrics").text
        assert read_sample(metrics, "regard_draining", {}) == 1
        assert read_sample(metrics, "regard_ready", {}) == 0
        assert server.process.poll() is None
        children = server.children()
        assert len(children) == num_children, server.text
        for pid in children:
            os.kill(pid, signal.SIGSTOP)
        server.process.send_signal(second)
        server.status()
        assert not [pid for pid in children if os.path.exists(f"/proc/{pid}")]


@pytest.mark.checkpoint
@pytest.mark.parametrize(
    ("http_workers", "num_children", "log_format"),
    [("1", 1, "text"), ("2", 3, "json")],
)
def test_new_work_is_refused_while_an_admitted_request_finishes(
    http_workers: str, num_children: int, log_format: str
) -> None:
    """uvicorn ends with the status of the signal, which looks like a crash to who started it."""
    replies: list[httpx.Response] = []
    (admin_port,) = free_ports(1)
    settings = {"REGARD_HTTP_WORKERS": http_workers, "REGARD_LOG_FORMAT": log_format}
    settings |= {"REGARD_DRAIN_TIMEOUT_SECONDS": "60", "REGARD_ADMIN_PORT": str(admin_port)}
    with ready_program(**settings) as (server, url):
        admin = f"http://127.0.0.1:{admin_port}"
        workers = server.children()
        assert len(workers) == num_children
        assert [get(each, "/metrics").status_code for each in (url, admin)] == [404, 200]
        assert [get(each, "/languages").status_code for each in (url, admin)] == [200, 200]
        with server.stopped_device_workers():
            asking = begin(url, admin, replies)
            server.process.send_signal(signal.SIGTERM)
            until(lambda: all(is_refused(url) for _ in range(20)))  # by each of the processes
            refused = post(url)
            assert refused.status_code == 503
            assert refused.json()["error_type"] == "unavailable"
            assert refused.headers["retry-after"] == "1"
            assert not replies  # the request is still in progress
        asking.join()
        assert server.status() == 0, server.text
        assert server.text.count(f"listens on {url}") == 1
        if log_format == "json":  # of all processes
            assert all("message" in json.loads(line) for line in server.said)
    (reply,) = replies
    assert reply.status_code == 200
    assert len(reply.json()["translatedText"]) == len(TEXTS)
    assert not [pid for pid in workers if os.path.exists(f"/proc/{pid}")]


@pytest.mark.checkpoint
@pytest.mark.parametrize("http_workers", ["1", "2"])
def test_every_request_of_many_clients_that_got_in_has_its_answer(http_workers: str) -> None:
    body = json.dumps(translation("The weather is nice today.")).encode()
    request = (
        b"POST /translate HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        b"Content-Length: %d\r\n\r\n" % len(body) + body
    )
    statuses: list[bytes] = []
    lost: list[float] = []  # when the lost requests had been sent

    def ask(address: tuple[str, int]) -> None:
        """Sends requests, each on a connection of its own, until connections are refused."""
        while True:
            try:
                connection = socket.create_connection(address, LIMIT_SECONDS)
            except OSError:
                return
            sent = math.inf
            with connection:
                try:
                    connection.sendall(request)
                    sent = time.monotonic()  # an idle connection may be closed before
                    reply = connection.recv(65536)
                except OSError:
                    reply = b""
            if not reply:
                lost.append(sent)
                return
            statuses.append(reply[9:12])

    settings = {"REGARD_DRAIN_DELAY_SECONDS": "1", "REGARD_HTTP_WORKERS": http_workers}
    with ready_program(**settings) as (server, url):
        address = ("127.0.0.1", int(url.rpartition(":")[2]))
        clients = [threading.Thread(target=ask, args=(address,)) for _ in range(24)]
        for each in clients:
            each.start()
        until(lambda: len(statuses) > 48)
        refusal = time.monotonic() + 1
        server.process.send_signal(signal.SIGTERM)
        assert server.status() == 0, server.text
        assert "Traceback" not in server.text
        for each in clients:
            each.join()
    assert set(statuses) <= {b"200", b"503"}
    assert statuses.count(b"200") > 48
    assert all(sent > refusal for sent in lost)  # they came when the server refused work
