"""Clients that close the connection: their work ends, and those of others goes on."""

import json
import logging
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


def test_client_that_goes_while_its_sentence_runs(serve_tcp: ServeTcp, script: Script) -> None:
    server = serve_tcp()
    script.may_finish.clear()
    with send(server, "Hello."):
        until(lambda: script.admitted)
    until(lambda: server.num_requests("cancelled") == 1)
    until(lambda: script.aborted == [script.admitted[0].id])
    assert server.num_cancelled("running") == 1
    assert server.sample("regard_decode_slots", model="en-pt", state="used") == 0
    assert server.sample("regard_inflight_requests", task="translate") == 0
    duration = {"task": "translate", "model": "en-pt", "outcome_class": "4xx"}
    assert server.sample("regard_request_duration_seconds_count", **duration) == 1
    server.until_admitted(0)
    script.may_finish.set()
    assert server.translate("Next.").json() == {"translatedText": "Next."}


def test_client_that_goes_while_its_sentence_waits(serve_live: ServeLive, script: Script) -> None:
    server = serve_live(max_rows=1, max_beam_size=1)
    script.may_finish.clear()
    with send(server, "First.") as first:
        until(lambda: script.admitted)
        with send(server, ["Second.", "Third."]):
            server.until_admitted(2)
        until(lambda: server.num_requests("cancelled") == 1)
        assert server.num_cancelled("queued") == 2
        assert server.num_cancelled("running") == 0
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
    server.until_admitted(0)
    until(lambda: server.num_requests("cancelled", task="document", model="none") == 1)


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
        until(lambda: server.num_requests("cancelled", model="none") == 1)
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]
    assert server.sample("regard_inflight_requests", task="translate") == 0


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
    assert server.num_requests("cancelled") == 0
