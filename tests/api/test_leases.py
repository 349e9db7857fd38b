"""The lease of a request: it is admitted once, and counts until its values are computed."""

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from service.server import create_app
from tests.api.servers import (
    AnyServer,
    ApartServer,
    LiveServer,
    SocketServer,
    make_settings,
)
from tests.api.test_attention import CAT, asking
from tests.api.test_disconnect import post_of
from tests.workers import Script, Threads, until

ALIGNED = {"q": f"{CAT} It is cold. A dog sleeps.", "return_alignment": True}


@contextmanager
def counted_reservations(server: AnyServer) -> Iterator[list[int]]:
    admission, tokens = server.core.admission, list[int]()
    admit = admission.admit

    def record(count: int) -> None:
        tokens.append(count)
        admit(count)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(admission, "admit", record)
        yield tokens


@pytest.fixture(params=["float_server", "serve_real"])
def real(request: pytest.FixtureRequest) -> AnyServer:
    found = request.getfixturevalue(request.param)
    server: AnyServer = found(dtype="float32") if request.param == "serve_real" else found
    return server


@pytest.mark.checkpoint
def test_request_of_several_submissions_is_admitted_once(real: AnyServer) -> None:
    """/attention translates and then reads the pair; return_alignment reads after it translates."""
    requests: list[tuple[str, dict[str, Any]]] = [
        ("/attention", asking()),
        ("/attention", asking([CAT, "It is cold."])),
        ("/attention", asking(f"{CAT} It is cold.", split=True)),
        ("/attention/steps", asking(query=0)),
        ("/attention/knockout", asking(knockouts=[{"source_words": [1]}], translate=True)),
        ("/translate", asking() | ALIGNED),
        ("/translate", asking() | {**ALIGNED, "q": [CAT, "It is cold."]}),
    ]
    for path, body in requests:
        with counted_reservations(real) as reservations:
            response = real.post(path, json=body)
        assert response.status_code == 200, response.text
        assert len(reservations) == 1
        real.until_released()


def ask_for_many_vectors(server: SocketServer) -> socket.socket:
    """Returns the connection of a client that reads nothing of a reply of several megabytes."""
    connection = socket.socket()
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    connection.connect(("127.0.0.1", server.port))
    texts = {"inputs": ["a b c a b c a b c a"] * 2000}
    connection.sendall(post_of(texts, "/embed_all", "Connection: close"))
    return connection


@pytest.fixture(params=["live", "apart"])
def embedding_server(
    request: pytest.FixtureRequest, both: tuple[str, ...], script: Script
) -> Iterator[SocketServer]:
    settings: dict[str, Any] = {
        "models": both,
        "max_pending_requests": 1,
        "max_token_vectors": 24_000,
        "request_timeout_seconds": 600,
    }
    start = Threads(script.load)
    if request.param == "live":
        with LiveServer(create_app(make_settings(**settings), start)) as live:
            yield live
    else:
        with ApartServer(make_settings(http_workers=2, **settings), start) as apart:
            yield apart.until_ready().until_listening()


def test_slow_client_takes_no_room_of_other_requests(embedding_server: SocketServer) -> None:
    """The buffers of the sockets are smaller than the reply, and so the server waits to write."""
    server = embedding_server
    admission = server.core.admission
    with ask_for_many_vectors(server) as connection:
        assert connection.recv(12) == b"HTTP/1.1 200"
        assert not any(server.core.scheduler.queues["embed"].values())
        until(lambda: not admission.requests)
        assert admission.tokens == 0
        assert server.translate("Hello.").status_code == 200
        if isinstance(server, LiveServer):
            assert server.pool.budget.used > 1_000_000
        received = 0
        while part := connection.recv(1 << 20):
            received += len(part)
    assert received > 8_000_000
    if isinstance(server, LiveServer):
        until(lambda: not server.pool.budget.used)
    assert server.translate("Hello.").status_code == 200
