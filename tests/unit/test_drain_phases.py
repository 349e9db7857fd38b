"""The end of a server."""

import asyncio
import socket
import time
from typing import Any

from service.http_server.connection import HttpServerConfig
from service.http_server.drain import Drain, DrainingServer
from service.http_server.early_refusals import EarlyRefusals
from service.http_server.loop_load import LoopLoad
from service.http_server.pool import ConnectionPool
from service.settings import Settings

NO_REFUSALS = EarlyRefusals(LoopLoad(), {}, lambda: False, lambda _task, _number: None)

REQUEST = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"


def test_signal_before_the_first_tick_drains_too() -> None:
    async def application(scope: object, receive: object, send: object) -> None: ...

    pool = ConnectionPool(Settings.model_validate({}))
    config = HttpServerConfig(application, pool, NO_REFUSALS, lifespan="off", log_config=None)
    config.load()
    drain = Drain(lambda: 0, delay_seconds=5.0, timeout_seconds=30.0)
    server = DrainingServer(config, drain)
    server.lifespan = config.lifespan_class(config)
    server.servers = []
    calls = []
    server.on_drain = lambda: calls.append("drain")
    server.should_exit = True
    asyncio.run(server.shutdown(sockets=[]))
    assert calls == ["drain"]
    assert drain.has_begun
    assert drain.refuses_work
    assert config.timeout_graceful_shutdown == 35


def test_sockets_stay_open_for_one_call_after_work_is_refused() -> None:
    drain = Drain(lambda: 0, delay_seconds=0.0, timeout_seconds=30.0)
    drain.begin()
    assert not drain.advance()
    assert drain.refuses_work
    assert drain.advance()


async def refuse(scope: dict[str, Any], receive: Any, send: Any) -> None:
    """Answers every request as an application does that refuses work."""
    await receive()
    await send({"type": "http.response.start", "status": 503, "headers": []})
    await send({"type": "http.response.body", "body": b""})


def listening_server(listener: socket.socket) -> DrainingServer:
    pool = ConnectionPool(Settings.model_validate({}))
    config = HttpServerConfig(refuse, pool, NO_REFUSALS, lifespan="off", log_config=None)
    config.load()
    server = DrainingServer(config, Drain(lambda: 0, delay_seconds=0.0, timeout_seconds=30.0))
    server.lifespan = config.lifespan_class(config)
    return server


def test_client_that_has_just_connected_gets_an_answer_to_its_first_request() -> None:
    """A client lost its request: the server closed the connection before it had read it."""

    async def test() -> bytes:
        with socket.create_server(("127.0.0.1", 0)) as listener:
            server = listening_server(listener)
            await server.startup([listener])
            reader, writer = await asyncio.open_connection(*listener.getsockname())
            while not server.server_state.connections:
                await asyncio.sleep(0.001)
            ending = asyncio.create_task(server.shutdown())
            await asyncio.sleep(0.05)
            writer.write(REQUEST)
            reply = await reader.read()
            await ending
            writer.close()
            return reply

    assert asyncio.run(test()).startswith(b"HTTP/1.1 503 ")


def test_connection_without_a_request_does_not_hold_up_the_end() -> None:
    async def test() -> float:
        with socket.create_server(("127.0.0.1", 0)) as listener:
            server = listening_server(listener)
            await server.startup([listener])
            _, writer = await asyncio.open_connection(*listener.getsockname())
            while not server.server_state.connections:
                await asyncio.sleep(0.001)
            began = time.monotonic()
            await server.shutdown()
            writer.close()
            return time.monotonic() - began

    assert asyncio.run(test()) < 5
