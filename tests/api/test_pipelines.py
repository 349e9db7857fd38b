"""Pipelined requests, clients that end their side early, and the header Host."""

import json
import socket

import pytest

from service.http_server.connection import Connection
from tests.api.servers import LiveServer, translation
from tests.api.test_connections import ANSWER, BODY, error_of, received, reply
from tests.api.test_disconnect import head, send
from tests.workers import Script, until

REQUEST = head(len(BODY)) + BODY
LIVE = b"GET /health/live HTTP/1.1\r\nHost: localhost\r\n\r\n"
NOISE = b"\x16\x03\x01\x02\x00 not HTTP\r\n\r\n"


def numbered(number: int, size: int = 0) -> bytes:
    body = json.dumps(translation(f"Sentence {number}.")).encode().ljust(size)
    return head(len(body)) + body


def only(server: LiveServer) -> Connection:
    until(lambda: len(server.pool.connections) == 1)  # of earlier tests some may not be closed yet
    (found,) = server.pool.connections
    assert isinstance(found, Connection)
    return found


@pytest.mark.parametrize("size", [0, 3000, 40_000])
@pytest.mark.parametrize("count", [20, 500])
def test_pipelined_requests_are_answered_in_order(live: LiveServer, count: int, size: int) -> None:
    sent = b"".join(numbered(number, size if number % 7 == 3 else 0) for number in range(count))
    with live.connect() as connection:
        connection.sendall(sent + LIVE.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"))
        found = received(connection)
    assert found.count(b"HTTP/1.1 200 ") == count + 1
    places = [found.find(b'"Sentence %d."' % number) for number in range(count)]
    assert -1 not in places
    assert places == sorted(places)


def test_few_pipelined_requests_wait_in_memory(live: LiveServer, script: Script) -> None:
    script.may_finish.clear()
    with send(live, "Hello.") as connection:
        until(lambda: script.admitted)
        connection.sendall(LIVE * 1000)
        until(lambda: any(isinstance(c, Connection) and c.unparsed for c in live.pool.connections))
        waiting = only(live)
        assert len(waiting.pipeline) < 100
        script.may_finish.set()
        connection.shutdown(socket.SHUT_WR)
        assert received(connection).count(b"HTTP/1.1 200 ") == 1001
    assert live.num_requests("cancelled") == 0


@pytest.mark.parametrize("count", [1, 3, 100])
@pytest.mark.parametrize(
    "fault",
    [NOISE, LIVE.replace(b"Host", b"Guest"), head(0).replace(b"t-Length: 0", b"t-Length: x")],
    ids=["noise", "host", "length"],
)
def test_valid_requests_are_answered_before_the_fault_behind_them(
    live: LiveServer, fault: bytes, count: int
) -> None:
    with live.connect() as connection:
        connection.sendall(REQUEST * count + fault)
        connection.shutdown(socket.SHUT_WR)
        found = received(connection)
    assert found.count(ANSWER) == count
    assert found.count(b"HTTP/1.1 400 Bad Request\r\n") == 1
    assert found.rindex(ANSWER) < found.index(b"HTTP/1.1 400 ")


def test_fault_in_the_body_of_a_waiting_request_ends_that_request_alone(
    live: LiveServer, script: Script
) -> None:
    script.may_finish.clear()
    chunked = head(0).replace(b"Content-Length: 0", b"Transfer-Encoding: chunked")
    with send(live, "Hello.") as connection:
        until(lambda: script.admitted)
        connection.sendall(numbered(1) + chunked + b"%x\r\n%s\r\nzz\r\n" % (len(BODY), BODY))
        until(lambda: only(live).fault)
        script.may_finish.set()
        found = received(connection)
    assert (found.count(b"HTTP/1.1 200 "), found.count(b"HTTP/1.1 400 ")) == (2, 1)
    assert b"Sentence 1." in found


def test_head_that_waits_behind_a_slow_reply_is_not_late(live: LiveServer, script: Script) -> None:
    script.may_finish.clear()
    with send(live, "Hello.") as connection:
        until(lambda: script.admitted)
        connection.sendall(LIVE[:-2])
        waiting = only(live)
        until(lambda: waiting.is_head)
        waiting.head_began -= 1000.0  # as if the reply had taken this long
        began = waiting.answered
        script.may_finish.set()
        reply(connection)
        until(lambda: waiting.answered > began)
        assert waiting.idle_since == waiting.answered
        connection.sendall(LIVE[-2:])
        assert connection.recv(12) == b"HTTP/1.1 200"


@pytest.mark.parametrize("version", [b"1.0", b"1.1"])
def test_half_closed_client_gets_its_reply(
    live: LiveServer, script: Script, version: bytes
) -> None:
    script.may_finish.clear()
    with live.connect() as connection:
        connection.sendall(REQUEST.replace(b"HTTP/1.1", b"HTTP/" + version))
        connection.shutdown(socket.SHUT_WR)
        until(lambda: script.admitted)
        waiting = only(live)
        until(lambda: waiting.cycle and not waiting.cycle.keep_alive)
        script.may_finish.set()
        found = received(connection)
    interim = b"HTTP/1.1 100 Continue\r\n\r\n" if version == b"1.1" else b""
    assert found.startswith(interim + b"HTTP/1.1 200 OK\r\n")
    assert b"connection: close\r\n" in found
    assert found.endswith(ANSWER)
    assert live.num_requests("cancelled") == 0


def test_half_closed_pipeline_is_answered_to_its_end(live: LiveServer) -> None:
    with live.connect() as connection:
        connection.sendall(REQUEST * 200)
        connection.shutdown(socket.SHUT_WR)
        assert received(connection).count(ANSWER) == 200


@pytest.mark.parametrize(
    ("hosts", "shown"),
    [
        ([], "0 Host headers"),
        ([b"localhost", b"localhost"], "2 Host headers"),
        ([b"localhost", b"example.org"], "2 Host headers"),
        ([b"local host"], "local host"),
        ([b"localhost, example.org"], "localhost, example.org"),
        ([b"localhost:80:80"], "localhost:80:80"),
        ([b"user@localhost"], "user@localhost"),
        ([b"localhost/path"], "localhost/path"),
        ([b"[::1"], "[::1"),
        ([b"h\xc3\xb6st"], "h"),
    ],
)
def test_wrong_host_gets_400(live: LiveServer, hosts: list[bytes], shown: str) -> None:
    lines = b"".join(b"Host: %s\r\n" % host for host in hosts)
    with live.connect() as connection:
        connection.sendall(LIVE.replace(b"Host: localhost\r\n", lines))
        found = received(connection)
    assert found.startswith(b"HTTP/1.1 400 ")
    assert error_of(found)["error_type"] == "invalid_request"
    assert shown in error_of(found)["error"]


@pytest.mark.parametrize(
    "request_head",
    [
        b"GET /health/live HTTP/1.0\r\n\r\n",
        b"GET /health/live HTTP/1.0\r\nHost: localhost\r\n\r\n",
        b"GET /health/live HTTP/1.1\r\nhost:\r\n\r\n",
        b"GET /health/live HTTP/1.1\r\nHost: [::1]:8000\r\n\r\n",
        b"GET /health/live HTTP/1.1\r\nHost: a_b.example.org:80\r\n\r\n",
        b"GET /health/live HTTP/1.1\r\nHost: 127.0.0.1:\r\n\r\n",
    ],
)
def test_right_host_is_served(live: LiveServer, request_head: bytes) -> None:
    with live.connect() as connection:
        connection.sendall(request_head)
        assert connection.recv(12) in (b"HTTP/1.1 200", b"HTTP/1.0 200")
