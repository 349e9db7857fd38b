"""Requests of an overload that are refused before the application gets them."""

import http.client
import json
import select
import time
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

from service.http_server.byte_budget import SMALL_BYTES
from service.http_server.connection import Connection
from tests.api.conftest import ServeLive
from tests.api.servers import LiveServer, translation
from tests.api.test_disconnect import head
from tests.ports import free_ports
from tests.workers import LIMIT_SECONDS, Script, until

BODY = json.dumps(translation("Hello.")).encode()
HEAD = head(len(BODY))[:-2]
ID = "0123456789abcdef"


class Refusing:
    """A server whose turns have no time left, and the number of its early refusals."""

    def __init__(self, server: LiveServer, monkeypatch: pytest.MonkeyPatch) -> None:
        self.server = server
        self.admitted: list[bool] = []  # of the next requests; the later ones are refused
        self.num_early = 0
        early = server.early
        add = early.add

        def counted(template: Any) -> None:
            self.num_early += 1
            add(template)

        def admits(_client: str) -> bool:
            early.load.turn_began = time.perf_counter()
            return bool(self.admitted) and self.admitted.pop(0)

        monkeypatch.setattr(early, "add", counted)
        monkeypatch.setattr(early.load, "admits", admits)


@pytest.fixture
def refusing(serve_live: ServeLive, monkeypatch: pytest.MonkeyPatch) -> Refusing:
    return Refusing(serve_live(), monkeypatch)


@pytest.fixture
def connection(refusing: Refusing) -> Iterator[http.client.HTTPConnection]:
    port = refusing.server.port
    with closing(http.client.HTTPConnection("127.0.0.1", port, LIMIT_SECONDS)) as opened:
        yield opened


def asked(
    connection: http.client.HTTPConnection, path: str = "/translate", **headers: str
) -> tuple[int, dict[str, str], str]:
    fields = {"Content-Type": "application/json"} | {
        name.replace("_", "-"): value for name, value in headers.items()
    }
    connection.request("POST", path, BODY, fields)
    response = connection.getresponse()
    found = {name.lower(): value for name, value in response.getheaders()}
    return response.status, found, response.read().decode()


def test_response_is_the_one_of_the_application(
    refusing: Refusing, connection: http.client.HTTPConnection
) -> None:
    paths = [path.decode() for path in refusing.server.early.templates]
    assert {"/translate", "/v2/translate", "/v1/embeddings", "/embed", "/attention"} <= {*paths}
    for path in paths:
        status, headers, body = asked(connection, path)
        number = headers["x-request-id"]
        assert len(number) == len(ID)
        assert (refusing.num_early, status) == (1, 429)
        wanted = asked(connection, path, X_Request_Id=ID)  # which the application answers
        assert refusing.num_early == 1
        refusing.num_early = 0
        date = {"date": headers["date"]}
        assert (status, {**wanted[1], **date}, wanted[2]) == (
            wanted[0],
            {name: value.replace(number, ID) for name, value in headers.items()},
            body.replace(number, ID),
        )
        assert headers["retry-after"] == "1"


def test_connection_serves_requests_after_a_refusal(
    refusing: Refusing, connection: http.client.HTTPConnection
) -> None:
    first, second = asked(connection), asked(connection)
    assert (first[0], second[0], refusing.num_early) == (429, 429, 2)
    assert first[1]["x-request-id"] != second[1]["x-request-id"]
    refusing.admitted = [True]
    assert asked(connection)[0] == 200


def test_deadline_counts_from_the_beginning_of_the_turn(
    serve_live: ServeLive, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = serve_live()
    monkeypatch.setattr(server.early.load, "clock", lambda: time.perf_counter() - 5)
    with closing(http.client.HTTPConnection("127.0.0.1", server.port, LIMIT_SECONDS)) as opened:
        assert asked(opened, X_Request_Timeout_Ms="4000")[0] == 504
        assert asked(opened, X_Request_Timeout_Ms="60000")[0] == 200


def test_refusals_are_counted(refusing: Refusing, connection: http.client.HTTPConnection) -> None:
    for _ in range(3):
        assert asked(connection)[0] == 429
    labels = {"task": "translate", "model": "none"}
    sample = refusing.server.sample
    until(lambda: sample("regard_requests_total", **labels, outcome="rejected_queue") == 3)
    count = "regard_request_duration_seconds_count"
    assert sample(count, **labels, outcome_class="4xx") == 3
    assert sample("regard_inflight_requests", task="translate") == 0


def test_response_comes_after_the_body(refusing: Refusing) -> None:
    with refusing.server.connect() as connection:
        connection.sendall(HEAD + b"\r\n" + BODY[:10])
        assert not select.select([connection], [], [], 0.1)[0]
        connection.sendall(BODY[10:])
        assert connection.recv(65536).startswith(b"HTTP/1.1 429 ")
    assert refusing.num_early == 1


def test_client_that_leaves_within_the_body_harms_no_other(
    refusing: Refusing, connection: http.client.HTTPConnection
) -> None:
    with refusing.server.connect() as leaving:
        leaving.sendall(HEAD + b"\r\n" + BODY[:10])
        until(lambda: len(refusing.server.pool.connections) == 1)
    until(lambda: not refusing.server.pool.connections)
    assert refusing.num_early == 0
    assert asked(connection)[0] == 429


def test_requests_sent_together_have_responses_in_order(refusing: Refusing) -> None:
    with refusing.server.connect() as connection:
        connection.sendall(2 * (HEAD + b"\r\n" + BODY))
        found = b""
        while found.count(b'"request_id"') < 2:
            found += connection.recv(65536)
    assert found.count(b"HTTP/1.1 429 ") == 2


def test_refusal_waits_for_the_response_before_it(refusing: Refusing, script: Script) -> None:
    script.may_finish.clear()
    refusing.admitted = [True]
    with refusing.server.connect() as connection:
        connection.sendall(2 * (HEAD + b"\r\n" + BODY))
        assert not select.select([connection], [], [], 0.1)[0]
        script.may_finish.set()
        found = b""
        while b"429" not in found:
            found += connection.recv(65536)
    assert found.index(b"HTTP/1.1 200 ") < found.index(b"HTTP/1.1 429 ")
    assert refusing.num_early == 0


def test_client_that_reads_no_responses_gets_no_early_refusals(refusing: Refusing) -> None:
    """Their bytes would fill the memory; the application waits until the client reads."""
    with refusing.server.connect() as connection:
        until(lambda: len(refusing.server.pool.connections) == 1)
        (found,) = refusing.server.pool.connections
        assert isinstance(found, Connection)
        found.flow.pause_writing()
        connection.sendall(HEAD + b"\r\n" + BODY)
        assert not select.select([connection], [], [], 0.1)[0]
        found.loop.call_soon_threadsafe(found.flow.resume_writing)
        assert connection.recv(65536).startswith(b"HTTP/1.1 429 ")
    assert refusing.num_early == 0


@pytest.mark.parametrize(
    "request_bytes",
    [
        HEAD.replace(b"1.1", b"1.0") + b"\r\n" + BODY,
        HEAD + b"Connection: close\r\n\r\n" + BODY,
        HEAD + b"Origin: https://example.org\r\n\r\n" + BODY,
        HEAD.replace(b"Content-Length: %d" % len(BODY), b"Transfer-Encoding: chunked")
        + b"\r\n%x\r\n%b\r\n0\r\n\r\n" % (len(BODY), BODY),
        HEAD.replace(b"%d" % len(BODY), b"%d" % (SMALL_BYTES + 1))
        + b"\r\n"
        + BODY.ljust(SMALL_BYTES + 1),
        HEAD.replace(b"/translate", b"/translate?") + b"\r\n" + BODY,
        HEAD.replace(b"POST", b"PUT") + b"\r\n" + BODY,
    ],
    ids=["HTTP/1.0", "close", "origin", "chunked", "large", "query", "method"],
)
def test_application_refuses_other_requests(refusing: Refusing, request_bytes: bytes) -> None:
    with refusing.server.connect() as connection:
        connection.sendall(request_bytes)
        found = connection.recv(65536)
    assert found.startswith((b"HTTP/1.1 429 ", b"HTTP/1.0 429 "))
    assert refusing.num_early == 0


def test_traced_server_refuses_in_the_application(
    serve_live: ServeLive, monkeypatch: pytest.MonkeyPatch
) -> None:
    (port,) = free_ports(1)
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://127.0.0.1:{port}")
    assert serve_live().early.templates == {}
