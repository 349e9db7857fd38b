"""Connections that wait on a listening socket while the event loop is busy."""

import asyncio
import contextlib
import socket
from collections.abc import Iterator

import pytest
import uvloop

from service.http_server.drain import MAX_ACCEPTED, Acceptor


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
