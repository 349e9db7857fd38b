"""Limits of connections, with real sockets: their number, their headers and their times."""

import json
import select
import socket
import time
from typing import Any

import pytest

from service.api import responses
from tests.api.conftest import ServeLive
from tests.api.servers import LiveServer, translation
from tests.api.test_disconnect import head, send
from tests.workers import LIMIT_SECONDS, Script, until

BODY = json.dumps(translation("Hello.")).encode()
ANSWER = b'{"translatedText":"Hello."}'
START = b"GET /health/live HTTP/1.1\r\nHost: localhost\r\n"


def received(connection: socket.socket) -> bytes:
    found = b""
    try:
        while part := connection.recv(65536):
            found += part
    except ConnectionResetError:  # the server closed it while bytes came
        pass
    return found


def reply(connection: socket.socket) -> bytes:
    found = b""
    while not found.endswith(ANSWER):
        part = connection.recv(4096)
        assert part, found
        found += part
    return found


def whole_reply(connection: socket.socket) -> bytes:
    """Reads the head of one response and its body, which may come later."""
    found = b""
    while True:
        part = connection.recv(65536)
        assert part, found
        found += part
        begin, end, body = found.partition(b"\r\n\r\n")
        if end and len(body) >= int(begin.lower().partition(b"content-length: ")[2].split()[0]):
            return found


def error_of(found: bytes) -> dict[str, Any]:
    fields: dict[str, Any] = json.loads(found.partition(b"\r\n\r\n")[2])
    return fields


def is_closed(connection: socket.socket) -> bool:
    if not select.select([connection], [], [], 0)[0]:
        return False
    try:
        return connection.recv(1, socket.MSG_PEEK) == b""
    except ConnectionResetError:
        return True


@pytest.mark.parametrize(
    "flood",
    [b"X-Endless: " + b"a" * 200_000, b"a:b\r\n" * 40_000, b"X-" + b"n" * 200_000],
    ids=["value", "headers", "name"],
)
def test_endless_header_gets_431(serve_live: ServeLive, flood: bytes) -> None:
    server = serve_live(max_header_bytes=4096)
    with server.connect() as connection:
        try:
            connection.sendall(START + flood)
        except (ConnectionResetError, BrokenPipeError):
            pass
        found = received(connection)
    assert found.startswith(b"HTTP/1.1 431 ") or not found  # a reset may overtake the reply
    assert server.translate("Hello.").status_code == 200


def test_endless_first_line_gets_431(serve_live: ServeLive) -> None:
    server = serve_live(max_header_bytes=4096)
    with server.connect() as connection:
        connection.sendall(b"GET /" + b"a" * 4096)
        found = received(connection)
    assert found.startswith(b"HTTP/1.1 431 ")
    assert "REGARD_MAX_HEADER_BYTES" in error_of(found)["error"]


def test_slow_large_header_gets_431(serve_live: ServeLive) -> None:
    """Each part is small, and the parts together are over the limit."""
    server = serve_live(max_header_bytes=4096)
    with server.connect() as connection:
        connection.sendall(START)
        for number in range(20):
            connection.sendall(b"X-%d: " % number + b"a" * 250 + b"\r\n")
            if select.select([connection], [], [], 0.05)[0]:  # the server has answered
                break
        assert received(connection).startswith(b"HTTP/1.1 431 ")


def test_header_of_the_limit_is_served(serve_live: ServeLive) -> None:
    server = serve_live(max_header_bytes=4096)
    end = b"\r\n\r\n"
    value = b"a" * (4096 - len(START) - len(b"X: ") - len(end))
    for extra, status in ((0, b"200"), (100, b"431")):
        with server.connect() as connection:
            connection.sendall(START + b"X: " + value + b"a" * extra)
            time.sleep(0.05)
            connection.sendall(end)
            assert connection.recv(12) == b"HTTP/1.1 " + status


def test_too_many_headers_get_431(serve_live: ServeLive) -> None:
    server = serve_live(max_headers=20)
    for count, status in ((19, b"200"), (20, b"431")):  # one more is Host
        with server.connect() as connection:
            connection.sendall(START + b"a: b\r\n" * count + b"\r\n")
            found = whole_reply(connection)
        assert found.startswith(b"HTTP/1.1 " + status), count
    assert "REGARD_MAX_HEADERS" in error_of(found)["error"]


@pytest.mark.parametrize(
    "flood", [b"X-Endless: " + b"a" * 20_000, b"a:b\r\n" * 4_000], ids=["value", "trailers"]
)
def test_endless_trailer_is_refused(serve_live: ServeLive, flood: bytes) -> None:
    server = serve_live(max_header_bytes=4096)
    start = head(0).replace(b"Content-Length: 0", b"Transfer-Encoding: chunked")
    with server.connect() as connection:
        try:
            connection.sendall(start + b"%x\r\n%s\r\n0\r\n" % (len(BODY), BODY) + flood)
        except (ConnectionResetError, BrokenPipeError):
            pass
        assert ANSWER not in received(connection)
    until(lambda: server.num_requests("cancelled", model="none") == 1)


def test_slow_header_gets_408(serve_live: ServeLive) -> None:
    server = serve_live(header_timeout_seconds=0.2)
    with server.connect() as connection:
        connection.sendall(START)
        began = time.monotonic()
        for _ in range(100):  # each byte in time, and all of them too late
            if is_closed(connection) or select.select([connection], [], [], 0.01)[0]:
                break
            connection.sendall(b"a")
        found = received(connection)
        assert 0.1 < time.monotonic() - began < LIMIT_SECONDS / 2
    assert found.startswith(b"HTTP/1.1 408 ")
    assert "REGARD_HEADER_TIMEOUT_SECONDS" in error_of(found)["error"]


def test_idle_connection_is_closed(serve_live: ServeLive) -> None:
    server = serve_live(idle_timeout_seconds=1)
    with server.connect() as silent, server.connect() as used:
        used.sendall(head(len(BODY)) + BODY)
        reply(used)
        assert received(silent) == received(used) == b""


def test_connection_is_not_idle_while_its_request_runs(
    serve_live: ServeLive, script: Script
) -> None:
    server = serve_live(idle_timeout_seconds=0.1, header_timeout_seconds=0.1)
    script.may_finish.clear()
    with send(server, "Hello.") as connection:
        until(lambda: script.admitted)
        time.sleep(0.4)
        script.may_finish.set()
        reply(connection)


def test_connections_over_the_limit_get_503(serve_live: ServeLive, script: Script) -> None:
    server = serve_live(max_connections=3)
    script.may_finish.clear()
    busy = [send(server, f"Sentence {number}.") for number in range(3)]
    until(lambda: len(script.admitted) == 3)
    with server.connect() as refused:
        refused.sendall(head(len(BODY)) + BODY)
        found = received(refused)
    assert found.startswith(b"HTTP/1.1 503 ")
    assert b"retry-after: 1\r\n" in found
    assert "REGARD_MAX_CONNECTIONS" in error_of(found)["error"]
    with server.connect() as silent:
        assert received(silent).startswith(b"HTTP/1.1 503 ")
    script.may_finish.set()
    for connection in busy:
        with connection:
            assert connection.recv(12) == b"HTTP/1.1 200"
    until(lambda: not server.pool.connections)
    assert server.translate("Hello.").status_code == 200


def test_idle_connections_give_way_to_new_ones(
    serve_live: ServeLive, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Idle connections up to the limit do not lock other clients out."""
    monkeypatch.setattr("service.http_server.pool.IDLE_SECONDS", 0.0)
    server = serve_live(max_connections=8)
    idle = [server.connect() for _ in range(8)]
    until(lambda: len(server.pool.connections) == 8)
    idle[0].sendall(START)  # an incomplete header makes no connection busy
    until(lambda: any(each.is_head for each in server.pool.connections))
    assert server.translate("Hello.").status_code == 200
    until(lambda: all(is_closed(connection) for connection in idle))
    for connection in idle:
        connection.close()


UPGRADE = b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABk\r\n"


@pytest.mark.parametrize("upgrade", [UPGRADE, b"Connection: Upgrade\r\nUpgrade: websocket\r\n"])
@pytest.mark.parametrize("is_chunked", [False, True])
@pytest.mark.parametrize("pieces", [1, 2, 7])
def test_upgrade_is_served_as_http_1(
    live: LiveServer, upgrade: bytes, is_chunked: bool, pieces: int
) -> None:
    """The JDK's HttpClient asks for h2c in its first request; the body was lost."""
    start, body = head(len(BODY)), BODY
    if is_chunked:
        start = start.replace(b"Content-Length: %d" % len(BODY), b"Transfer-Encoding: chunked")
        body = b"%x\r\n%s\r\n0\r\n\r\n" % (len(BODY), BODY)
    request = start.removesuffix(b"\r\n") + upgrade + b"\r\n" + body
    size = -(-len(request) // pieces)
    with live.connect() as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for begin in range(0, len(request), size):
            connection.sendall(request[begin : begin + size])
            time.sleep(0.01)
        assert reply(connection).startswith(b"HTTP/1.1 200 ")
        connection.sendall(head(len(BODY)) + BODY)  # the connection goes on
        reply(connection)


def test_java_client_sends_the_body_after_the_headers(live: LiveServer) -> None:
    start = head(len(BODY)).removesuffix(b"\r\n") + UPGRADE + b"\r\n"
    with live.connect() as connection:
        connection.sendall(start)
        time.sleep(0.1)
        connection.sendall(BODY)
        reply(connection)


def test_connect_is_refused(live: LiveServer) -> None:
    with live.connect() as connection:
        connection.sendall(b"CONNECT localhost:80 HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert received(connection).startswith(b"HTTP/1.1 400 ")


def test_half_closed_client_that_goes_later_is_cancelled(
    serve_live: ServeLive, script: Script
) -> None:
    server = serve_live()
    script.may_finish.clear()
    with send(server, "Hello.") as connection:
        until(lambda: script.admitted)
        connection.shutdown(socket.SHUT_WR)
        time.sleep(0.1)
    until(lambda: server.num_requests("cancelled") == 1)


def test_half_closed_client_with_part_of_a_body_is_dropped(serve_live: ServeLive) -> None:
    server = serve_live()
    with server.connect() as connection:
        connection.sendall(head(1000) + b"{")
        connection.shutdown(socket.SHUT_WR)
        assert received(connection) == b""
    until(lambda: server.num_requests("cancelled", model="none") == 1)


def test_reply_to_http_1_0_has_a_length_and_no_chunks(
    serve_live: ServeLive, both: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(responses, "PART_VALUES", 100)
    monkeypatch.setattr(responses, "CHUNK_BYTES", 1000)
    server = serve_live(models=both, max_inputs=1000)
    requests: list[tuple[bytes, bytes, bytes]] = [
        (b"POST /translate", json.dumps(translation(["Hello."] * 3)).encode(), b"200"),
        (b"POST /embed", json.dumps({"inputs": ["cat"] * 1000}).encode(), b"200"),
        (b"GET /metrics", b"", b"200"),
        (b"GET /languages", b"", b"200"),
        (b"GET /absent", b"", b"404"),
    ]
    for target, body, status in requests:
        fields = b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body)
        with server.connect() as connection:
            connection.sendall(target + b" HTTP/1.0\r\n" + fields + body)
            start, _, content = received(connection).partition(b"\r\n\r\n")
        first, *headers = start.lower().split(b"\r\n")
        assert status in first
        assert b"content-length: %d" % len(content) in headers
        assert not any(line.startswith(b"transfer-encoding") for line in headers)


def test_malformed_chunk_gets_400(serve_live: ServeLive) -> None:
    server = serve_live()
    start = head(0).replace(b"Content-Length: 0", b"Transfer-Encoding: chunked")
    with server.connect() as connection:
        connection.sendall(start + b"%x\r\n%s\r\nzz\r\n" % (len(BODY), BODY))
        found = received(connection)
    assert found.startswith(b"HTTP/1.1 400 ")
    assert found.count(b"content-length: ") == 1
    assert error_of(found)["error_type"] == "invalid_request"
    until(lambda: server.num_requests("cancelled", model="none") == 1)


KEY = b"X-API-Key: secret\r\n"


@pytest.mark.parametrize("is_sent_at_once", [True, False])
def test_trailer_adds_no_header(serve_live: ServeLive, is_sent_at_once: bool) -> None:
    """A proxy checks only the headers of a request."""
    server = serve_live(api_keys="secret")
    start = head(0).replace(b"Content-Length: 0", b"Transfer-Encoding: chunked")
    body = b"%x\r\n%s\r\n0\r\n" % (len(BODY), BODY)
    with server.connect() as connection:
        connection.sendall(start + (b"" if is_sent_at_once else body))
        connection.sendall((body if is_sent_at_once else b"") + KEY + b"\r\n")
        assert connection.recv(12) == b"HTTP/1.1 400"
    with server.connect() as connection:
        connection.sendall(start.removesuffix(b"\r\n") + KEY + b"\r\n" + body + b"\r\n")
        assert connection.recv(12) == b"HTTP/1.1 200"
