"""Replies that a connection writes without uvicorn."""

import asyncio
from typing import Any
from unittest.mock import Mock

import pytest
from uvicorn.server import ServerState

from service.http_server.connection import Connection, HttpServerConfig
from service.http_server.early_refusals import EarlyRefusals
from service.http_server.loop_load import LoopLoad
from service.http_server.pool import ConnectionPool
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
