"""Clients that close the connection: their work ends, and those of others goes on."""

import json
import logging
import random
import socket
from typing import Any

import pytest

from tests.api.conftest import ServeLive, ServeTcp
from tests.api.servers import SocketServer, translation
from tests.workers import Script, until


def head(length: int, path: str = "/translate", *fields: str) -> bytes:
    """Returns the head of a POST of JSON, with more lines."""
    lines = [f"POST {path} HTTP/1.1", "Host: localhost", "Content-Type: application/json", *fields]
    return "\r\n".join([*lines, f"Content-Length: {length}", "", ""]).encode()


def post_of(body: dict[str, Any], path: str = "/translate", *fields: str) -> bytes:
    """Returns a request as a client sends it."""
    data = json.dumps(body).encode()
    return head(len(data), path, *fields) + data


def send(server: SocketServer, q: str | list[str]) -> socket.socket:
    connection = server.connect()
    connection.sendall(post_of(translation(q)))
    return connection


def cancelled_requests(server: SocketServer, model: str = "en-pt") -> float:
    labels = {"task": "translate", "model": model, "outcome": "cancelled"}
    return server.sample("regard_requests_total", **labels)


def cancelled_sentences(server: SocketServer, where: str) -> float:
    labels = {"task": "translate", "model": "en-pt", "where": where}
    return server.sample("regard_cancelled_total", **labels)


def until_waiting(server: SocketServer, num_requests: int) -> None:
    until(lambda: server.core.admission.requests == num_requests)


def test_client_that_goes_while_its_sentence_runs(serve_tcp: ServeTcp, script: Script) -> None:
    server = serve_tcp()
    script.may_finish.clear()
    with send(server, "Hello."):
        until(lambda: script.admitted)
    until(lambda: cancelled_requests(server) == 1)
    until(lambda: script.aborted == [script.admitted[0].id])
    assert cancelled_sentences(server, "running") == 1
    assert server.sample("regard_decode_slots", model="en-pt", state="used") == 0
    assert server.sample("regard_inflight_requests", task="translate") == 0
    duration = {"task": "translate", "model": "en-pt", "outcome_class": "4xx"}
    assert server.sample("regard_request_duration_seconds_count", **duration) == 1
    until_waiting(server, 0)
    script.may_finish.set()
    assert server.translate("Next.").json() == {"translatedText": "Next."}


def test_client_that_goes_while_its_sentence_waits(serve_live: ServeLive, script: Script) -> None:
    server = serve_live(max_rows=1, max_beam_size=1)
    script.may_finish.clear()
    with send(server, "First.") as first:
        until(lambda: script.admitted)
        with send(server, ["Second.", "Third."]):
            until_waiting(server, 2)
        until(lambda: cancelled_requests(server) == 1)
        assert cancelled_sentences(server, "queued") == 2
        assert cancelled_sentences(server, "running") == 0
        script.may_finish.set()
        assert first.recv(12) == b"HTTP/1.1 200"
    assert server.translate("Next.").status_code == 200
    assert not script.aborted
    assert len(script.admitted) == 2


DOCUMENT = (
    b'--x\r\nContent-Disposition: form-data; name="source"\r\n\r\nen\r\n'
    b'--x\r\nContent-Disposition: form-data; name="target"\r\n\r\npt\r\n'
    b'--x\r\nContent-Disposition: form-data; name="file"; filename="a.txt"\r\n\r\n'
    b"Hello.\r\n--x--\r\n"
)


def test_client_that_goes_while_its_document_is_translated(
    serve_live: ServeLive, script: Script
) -> None:
    server = serve_live(files=True)
    script.may_finish.clear()
    with server.connect() as connection:
        start = head(len(DOCUMENT), "/translate_file")
        kind = b"multipart/form-data; boundary=x"
        connection.sendall(start.replace(b"application/json", kind) + DOCUMENT)
        until(lambda: script.admitted)
    until(lambda: script.aborted == [script.admitted[0].id])
    until_waiting(server, 0)
    labels = {"task": "document", "model": "none", "outcome": "cancelled"}
    until(lambda: server.sample("regard_requests_total", **labels) == 1)


@pytest.mark.parametrize("sent", [b"", b'{"q": "He'])
def test_client_that_goes_while_it_sends(
    serve_tcp: ServeTcp, sent: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    """It was taken for a fault of the server's own, logged and counted as such."""
    server = serve_tcp()
    with caplog.at_level(logging.WARNING):
        with server.connect() as connection:
            connection.sendall(head(1000) + sent)
            until(lambda: server.sample("regard_inflight_requests", task="translate") == 1)
        until(lambda: cancelled_requests(server, "none") == 1)
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]
    assert server.sample("regard_inflight_requests", task="translate") == 0


def test_many_clients_that_go_leave_nothing_behind(serve_tcp: ServeTcp, script: Script) -> None:
    server = serve_tcp(max_rows=4, max_beam_size=4, bulk_sentences=2)
    generator = random.Random(7)
    script.may_finish.clear()
    texts = [[f"Sentence {number}."] * generator.randint(1, 4) for number in range(30)]
    connections = [send(server, text) for text in texts]
    until_waiting(server, 30)
    kept = generator.sample(connections, 6)
    for connection in connections:
        if connection not in kept:
            connection.close()
    until_waiting(server, 6)
    script.may_finish.set()
    for connection in kept:
        with connection:
            assert connection.recv(12) == b"HTTP/1.1 200"
    until_waiting(server, 0)
    assert cancelled_requests(server) == 24
    assert server.core.admission.tokens == 0
    for state, rows in (("used", 0), ("free", 4)):
        assert server.sample("regard_decode_slots", model="en-pt", state=state) == rows
    for lane in ("interactive", "bulk"):
        labels = {"task": "translate", "model": "en-pt", "lane": lane}
        assert server.sample("regard_queue_depth", **labels) == 0
    assert server.translate("Next.").status_code == 200


def test_keep_alive_connection_serves_one_request_after_the_other(serve_live: ServeLive) -> None:
    server = serve_live()
    with server.connect() as connection:
        for _ in range(3):
            connection.sendall(post_of(translation("Hello.")))
            received = b""
            while not received.endswith(b'{"translatedText":"Hello."}'):
                part = connection.recv(4096)
                assert part
                received += part
    assert cancelled_requests(server) == 0
