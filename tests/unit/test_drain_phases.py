"""The end of a server, without sockets."""

import asyncio

from service.http_server.byte_budget import ByteBudget
from service.http_server.connection import HttpServerConfig
from service.http_server.drain import Drain, DrainingServer
from service.http_server.pool import ConnectionLimits, ConnectionPool


def test_signal_before_the_first_tick_drains_too() -> None:
    async def application(scope: object, receive: object, send: object) -> None: ...

    pool = ConnectionPool(ConnectionLimits(9, 9, 9, 9.0, 9.0, 9.0), ByteBudget(9))
    config = HttpServerConfig(application, pool, lifespan="off", log_config=None)
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
