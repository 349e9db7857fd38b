"""Connections: their replies, their largest number, and those that wait to be accepted."""

import asyncio
import contextlib
import logging
import resource
import socket
from collections.abc import Iterator
from typing import Any
from unittest.mock import Mock

import pytest
import uvloop
from uvicorn.server import ServerState

from service.http_server import pool
from service.http_server.connection import Connection, HttpServerConfig
from service.http_server.drain import MAX_ACCEPTED, Acceptor
from service.http_server.early_refusals import EarlyRefusals
from service.http_server.loop_load import LoopLoad
from service.http_server.pool import ConnectionPool, raise_descriptors
from service.settings import Settings

HEADERS = [(b"content-length", b"4")]


async def answer_nothing(_scope: Any, receive: Any, _send: Any) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def replied(request: bytes, *, is_paused: bool = False) -> tuple[bool, list[bytes]]:
    """Returns whether a connection has written a reply, and the bytes of each system call."""

    async def run() -> tuple[bool, list[bytes]]:
        pool = ConnectionPool(Settings.model_validate({}))
        early = EarlyRefusals(LoopLoad(), {}, lambda: False, lambda _task, _number: None)
        config = HttpServerConfig(answer_nothing, pool, early, lifespan="off", log_config=None)
        connection = Connection(config, ServerState(), {})
        transport = Mock()
        transport.is_closing.return_value = False
        transport.get_extra_info.return_value = None
        transport.get_write_buffer_size.return_value = 0
        connection.connection_made(transport)
        connection.data_received(request)
        if is_paused:
            connection.flow.pause_writing()
        is_written = connection.reply(200, HEADERS, b"text")
        connection.connection_lost(None)
        calls = transport.writelines.call_args_list
        return is_written, [b"".join(call.args[0]) for call in calls]

    return asyncio.run(run())


def test_headers_and_body_are_one_call() -> None:
    is_written, calls = replied(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
    assert is_written
    assert calls == [b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\ntext"]


@pytest.mark.parametrize(
    ("request_bytes", "is_paused"),
    [
        (b"GET / HTTP/1.0\r\n\r\n", False),
        (b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", False),
        (b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", True),
    ],
    ids=["HTTP/1.0", "close", "client that reads nothing"],
)
def test_uvicorn_writes_other_replies(request_bytes: bytes, is_paused: bool) -> None:
    assert replied(request_bytes, is_paused=is_paused) == (False, [])


@pytest.mark.parametrize(("hard", "expected"), [(100, 1), (200, 72)])
def test_warning_names_the_allowed_connections(
    hard: int, expected: int, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (64, hard))
    monkeypatch.setattr(resource, "setrlimit", lambda *_: None)
    with caplog.at_level(logging.WARNING, "regard.http"):
        assert raise_descriptors(1000) == expected
    assert f"{hard}, allows only {expected};" in caplog.text


class BusyConnection:
    """A connection whose request is in progress; it counts how often the pool looks at it."""

    def __init__(self) -> None:
        self.num_looks = 0

    @property
    def idle_since(self) -> float | None:
        self.num_looks += 1
        return None

    def check(self, now: float) -> None:
        pass

    def close(self) -> None:
        raise AssertionError("a busy connection was closed")


def test_full_pool_searches_seldom_for_idle_connections(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = Settings.model_validate({"max_connections": 1})
    connections: Any = ConnectionPool(settings)
    busy = BusyConnection()

    async def refuse(count: int) -> None:
        loop = asyncio.get_running_loop()
        connections.add(busy, loop)
        assert not any(connections.add(BusyConnection(), loop) for _ in range(count))

    monkeypatch.setattr(pool, "SEARCH_SECONDS", 60.0)
    asyncio.run(refuse(20))
    assert busy.num_looks == 1
    connections.next_search = 0.0
    asyncio.run(refuse(20))
    assert busy.num_looks == 2


class Accepted(asyncio.Protocol):
    """A connection that reports its beginning, as the pool of connections does."""

    def __init__(self, made: list["Accepted"], acceptor: list[Acceptor]) -> None:
        self.made = made
        self.acceptor = acceptor

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.peer: socket.socket = transport.get_extra_info("socket")
        self.transport = transport
        self.made.append(self)
        self.acceptor[0].accept_soon()


@pytest.fixture
def clients() -> Iterator[list[socket.socket]]:
    with contextlib.ExitStack() as opened:
        yield [opened.enter_context(socket.socket()) for _ in range(3 * MAX_ACCEPTED)]


def test_all_connections_that_wait_are_accepted_in_a_few_turns(
    clients: list[socket.socket],
) -> None:
    async def test() -> None:
        loop = asyncio.get_running_loop()
        made: list[Accepted] = []
        acceptor: list[Acceptor] = []

        def new_protocol() -> Accepted:
            return Accepted(made, acceptor)

        listener = socket.create_server(("127.0.0.1", 0), backlog=256)
        server = await loop.create_server(new_protocol, sock=listener, backlog=256)
        acceptor.append(Acceptor(server.sockets, new_protocol, loop))
        for client in clients:
            client.connect(listener.getsockname())
        for _ in range(20):
            await asyncio.sleep(0)
        assert len(made) == len(clients)
        for each in made:
            assert each.peer.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
        made[-1].transport.write(b"bytes")  # type: ignore[attr-defined]
        by_address = {client.getsockname(): client for client in clients}
        client = by_address[made[-1].transport.get_extra_info("peername")]
        assert await asyncio.to_thread(client.recv, 9) == b"bytes"
        acceptor[0].close()
        server.close()
        for each in made:
            each.transport.close()

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(test())


async def test_closed_acceptor_keeps_no_socket_open() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = listener.getsockname()
        acceptor = Acceptor([listener], asyncio.Protocol, asyncio.get_running_loop())
        acceptor.accept_soon()
        acceptor.close()
    await asyncio.sleep(0)
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(address)
