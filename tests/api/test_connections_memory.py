"""The bytes that connections make the server buffer: bounded by one budget, and all returned."""

import asyncio
import gc
import json
import os
import socket
import threading
import time
from contextlib import suppress

import pytest

from service.api.request.body import BodyReader
from service.http_server import byte_budget, loop_load
from tests.api.attacks import ATTACKS
from tests.api.conftest import ServeLive
from tests.api.servers import LiveServer, translation, without_collections
from tests.api.test_connections import ANSWER, BODY, error_of, reply, whole_reply
from tests.api.test_disconnect import head, send
from tests.workers import Script, until

LARGE = 200_000
SETTINGS = {"max_body_bytes": 400_000, "max_buffered_bytes": 1_142_858}
"""Large bodies leave an eighth of the buffer, so they may use 1,000,000 bytes."""


def body_of(size: int) -> bytes:
    body = json.dumps(translation("Hello.")).encode()
    return body + b" " * (size - len(body))


def withhold(server: LiveServer, num_sent: int = LARGE - 1) -> socket.socket:
    connection = server.connect()
    connection.sendall(head(LARGE) + body_of(LARGE)[:num_sent])
    return connection


def fill(server: LiveServer, num_sent: int = LARGE - 1) -> list[socket.socket]:
    filling = [withhold(server, num_sent) for _ in range(5)]
    until(lambda: server.pool.budget.used == 1_000_000)
    return filling


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(byte_budget, "STALLED_SECONDS", 1000.0)


@pytest.mark.usefixtures("patient")
@pytest.mark.parametrize("num_sent", [0, LARGE - 1])
def test_body_over_the_budget_gets_429_before_it_is_read(
    serve_live: ServeLive, num_sent: int
) -> None:
    server = serve_live(**SETTINGS)
    filling = fill(server, num_sent)
    with server.connect() as refused:
        refused.sendall(head(LARGE))
        found = whole_reply(refused)
        assert found.startswith(b"HTTP/1.1 429 ")
        assert b"retry-after: 2\r\n" in found
        assert "REGARD_MAX_BUFFERED_BYTES" in error_of(found)["error"]
        refused.sendall(body_of(LARGE) + head(len(BODY)) + BODY)
        reply(refused)  # the connection goes on
    assert server.pool.budget.used == 1_000_000
    for connection in filling:
        connection.sendall(body_of(LARGE)[num_sent:])
        reply(connection)
        connection.close()
    until(lambda: not server.pool.budget.used)
    assert not server.pool.budget.transfers


def test_large_bodies_are_freed_without_garbage_collection(serve_live: ServeLive) -> None:
    server = serve_live(**SETTINGS)
    with without_collections():
        with server.connect() as connection:
            for _ in range(3):
                connection.sendall(head(LARGE) + body_of(LARGE))
                reply(connection)
        until(lambda: not server.pool.budget.used)
        assert not [each for each in gc.get_objects() if isinstance(each, BodyReader)]


def test_given_up_bodies_are_freed_without_garbage_collection(
    serve_live: ServeLive, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(byte_budget, "STALLED_SECONDS", 0.0)
    server = serve_live(**SETTINGS)
    with without_collections():
        filling = [withhold(server) for _ in range(12)]  # each later one takes the place of another
        for connection in filling[:7]:
            assert connection.recv(12) == b"HTTP/1.1 429"
        for connection in filling:
            connection.close()
        until(lambda: not server.pool.connections)
        until(lambda: not server.pool.budget.used)
        until(lambda: not [each for each in gc.get_objects() if isinstance(each, BodyReader)])


@pytest.mark.usefixtures("patient")
def test_smaller_bodies_are_served_while_large_ones_use_up_the_budget(
    serve_live: ServeLive,
) -> None:
    server = serve_live(**SETTINGS)
    filling = fill(server)
    for _ in range(20):
        assert server.translate("Hello.").status_code == 200
    body = body_of(60_000)  # some sentences
    with server.connect() as connection:
        connection.sendall(head(len(body)) + body)
        reply(connection)
    for connection in filling:
        connection.close()
    until(lambda: not server.pool.budget.used)
    until(lambda: server.num_requests("cancelled", model="none") == 5)


@pytest.mark.usefixtures("patient")
def test_refused_large_bodies_are_no_overload(
    serve_live: ServeLive, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They made the server refuse single sentences of the same address."""
    monkeypatch.setattr(loop_load, "TARGET_SECONDS", 0.0)
    monkeypatch.setattr(loop_load, "PATIENCE_SECONDS", 0.0)
    server = serve_live(**SETTINGS)
    filling = fill(server)
    for _ in range(10):
        with server.connect() as connection:
            connection.sendall(head(LARGE))
            assert connection.recv(12) == b"HTTP/1.1 429"
        assert server.translate("Hello.").status_code == 200
    assert not server.early.load.is_overloaded
    assert server.num_requests("rejected_bytes", model="none") == 10
    for connection in filling:
        connection.close()


KEYS = {"api_keys": "secret", "files": True, "max_file_bytes": 400_000}
WITH_KEY = "Authorization: Bearer secret"


@pytest.mark.usefixtures("patient")
@pytest.mark.parametrize("path", ["/translate", "/v2/document"])
def test_bodies_without_a_key_hold_a_quarter_of_the_budget(
    serve_live: ServeLive, path: str
) -> None:
    server = serve_live(**SETTINGS, **KEYS)
    kind = b"application/json" if path == "/translate" else b"multipart/form-data; boundary=b"
    start = head(LARGE, path).replace(b"application/json", kind)
    with server.connect() as slow, server.connect() as refused, server.connect() as keyed:
        slow.sendall(start + (b"{" if path == "/translate" else b"-"))  # a form begins with a dash
        until(lambda: server.pool.keyless.used == LARGE)
        refused.sendall(start)
        found = whole_reply(refused)
        assert found.startswith(b"HTTP/1.1 429 ")
        assert b"send the key in the header Authorization" in found
        keyed.sendall(head(LARGE, "/translate", WITH_KEY) + body_of(LARGE))
        reply(keyed)
    until(lambda: not server.pool.budget.used)
    assert server.pool.keyless.used == 0


def test_large_body_may_have_the_key(serve_live: ServeLive) -> None:
    server = serve_live(**SETTINGS, **KEYS)
    body = json.dumps({**translation("Hello."), "api_key": "secret"}).encode().ljust(LARGE)
    with server.connect() as connection:
        connection.sendall(head(LARGE) + body)
        reply(connection)


@pytest.mark.parametrize("key", ["Authorization: Bearer wrong", "X-API-Key: wrong"])
def test_wrong_key_is_refused_before_the_body(
    serve_live: ServeLive, both: tuple[str, ...], key: str
) -> None:
    server = serve_live(**SETTINGS, **KEYS, models=both)
    paths = [path for path in server.early.templates if path != b"/suggest"]
    assert {b"/translate", b"/v2/translate", b"/v1/embeddings", b"/embed", b"/attention"} <= {
        *paths
    }
    for path in [*paths, b"/translate_file", b"/v2/document", b"/suggest"]:
        with server.connect() as connection:
            connection.sendall(head(LARGE, path.decode(), key))
            google = path.startswith(b"/language/")  # which answers 400 to a wrong key
            assert connection.recv(12)[9:] in ((b"400",) if google else (b"401", b"403")), path
    assert server.pool.budget.used == 0


def test_stalled_bodies_give_way(serve_live: ServeLive, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(byte_budget, "STALLED_SECONDS", 0.2)
    server = serve_live(**SETTINGS)
    filling = fill(server)
    time.sleep(0.3)
    with server.connect() as connection:
        connection.sendall(head(LARGE) + body_of(LARGE))
        reply(connection)
    found = whole_reply(filling[0])
    assert found.startswith(b"HTTP/1.1 429 ")
    assert f"only {LARGE - 1} bytes" in error_of(found)["error"]
    assert "32768 bytes/s" in error_of(found)["error"]
    filling[1].sendall(b" ")
    reply(filling[1])
    for connection in filling:
        connection.close()
    until(lambda: not server.pool.budget.used)


@pytest.mark.usefixtures("patient")
def test_body_without_a_length_reserves_what_has_arrived(serve_live: ServeLive) -> None:
    server = serve_live(**SETTINGS)
    start = head(0).replace(b"Content-Length: 0", b"Transfer-Encoding: chunked")
    size = 100_000
    chunks = [start + b"%x\r\n" % LARGE + body_of(LARGE)[:size]] * 8
    growing = []
    for chunk in chunks:
        growing.append(server.connect())
        growing[-1].sendall(chunk)
    until(lambda: server.pool.budget.used > 800_000)
    statuses = [connection.recv(12) for connection in growing[-1:]]
    assert statuses == [b"HTTP/1.1 429"]
    assert server.pool.budget.used <= 1_000_000
    for connection in growing:
        connection.close()
    until(lambda: not server.pool.budget.used)


def test_body_is_reserved_until_the_request_ends(serve_live: ServeLive, script: Script) -> None:
    server = serve_live(**SETTINGS)
    script.may_finish.clear()
    with server.connect() as connection:
        connection.sendall(head(LARGE) + body_of(LARGE))
        until(lambda: script.admitted)
        assert server.pool.budget.used == LARGE
        assert not server.pool.budget.transfers  # it has arrived, and cannot be given up
        script.may_finish.set()
        reply(connection)
        until(lambda: not server.pool.budget.used)


@pytest.mark.parametrize("body", [b"{", b"[]"])
def test_refused_body_is_returned(serve_live: ServeLive, body: bytes) -> None:
    server = serve_live(**SETTINGS)
    with server.connect() as connection:
        connection.sendall(head(LARGE) + body + b" " * (LARGE - len(body)))
        assert connection.recv(12) == b"HTTP/1.1 400"
        until(lambda: not server.pool.budget.used)


def read_nothing(server: LiveServer) -> socket.socket:
    """The connection of a client that requests a reply of 1.5 MB and does not read it.

    Accepted connections inherit the size of the send buffer. Without a limit, the kernel would take
    the whole reply.
    """
    with socket.socket(fileno=os.dup(server.server.servers[0].sockets[0].fileno())) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 65536)
    connection = socket.socket()
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    connection.connect(("127.0.0.1", server.port))
    body = json.dumps(translation(["🎉" * 350] * 1000)).encode()
    connection.sendall(head(len(body)) + body)
    return connection


UNREAD = {"max_body_bytes": 8_000_000, "max_text_chars": 0}


def test_reply_that_is_not_read_is_given_up(serve_live: ServeLive) -> None:
    server = serve_live(**UNREAD, write_timeout_seconds=0.5)
    with read_nothing(server):
        until(lambda: server.pool.budget.transfers)
        assert server.pool.budget.used > 500_000
        until(lambda: not server.pool.budget.used)
        until(lambda: not server.pool.connections)


def test_reply_is_written_to_the_end_while_it_is_read(serve_live: ServeLive) -> None:
    server = serve_live(**UNREAD, write_timeout_seconds=1.0)
    with read_nothing(server) as connection:
        found = 0
        for _ in range(8):
            found += len(connection.recv(50_000))
            time.sleep(0.2)
        while part := connection.recv(65536):
            found += len(part)
            if part.endswith(b"]}"):
                break
    assert found > 1_000_000


def test_client_that_goes_returns_its_bytes(serve_live: ServeLive) -> None:
    server = serve_live(**UNREAD)
    with read_nothing(server):
        until(lambda: server.pool.budget.transfers)
    until(lambda: not server.pool.budget.used)
    with send(server, "Hello.") as connection:
        assert ANSWER in reply(connection)


ATTACKED = 16 * 2**20
"""Bytes of the budget beside an attack."""
ATTACK_SECONDS = 0.7


async def attack(name: str, port: int) -> None:
    with suppress(TimeoutError):
        await asyncio.wait_for(ATTACKS[name](port), ATTACK_SECONDS)


@pytest.mark.parametrize("name", ATTACKS)
def test_sentences_are_answered_beside_an_attack(serve_live: ServeLive, name: str) -> None:
    server = serve_live(max_buffered_bytes=ATTACKED)
    attacker = threading.Thread(target=asyncio.run, args=(attack(name, server.port),))
    attacker.start()
    peak = answered = 0
    while attacker.is_alive():
        assert server.translate("Hello.").json() == {"translatedText": "Hello."}
        answered += 1
        peak = max(peak, server.pool.budget.used)
    attacker.join()
    assert answered
    # Replies that are computed already are not refused, and may exceed the budget for a moment.
    assert peak <= ATTACKED + 2**20
    until(lambda: not server.pool.connections)
    assert (server.pool.budget.used, len(server.pool.budget.transfers)) == (0, 0)
    assert server.translate("Hello.").status_code == 200
