"""Attacks on a server. Each one runs until it is cancelled."""

import asyncio
import json
import random
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial

from benchmarks.bench.client import Address

PART_SECONDS = 0.5  # between two parts of a body that is sent slowly
RETRY_SECONDS = 0.5
START = b"GET /health/live HTTP/1.1\r\nHost: 127.0.0.1\r\n"
SENTENCE = {"q": "The cat sat on the mat.", "source": "en", "target": "pt"}

Stream = tuple[asyncio.StreamReader, asyncio.StreamWriter]


async def repeat(act: Callable[[Stream], Awaitable[None]], clients: int, port: int) -> None:
    """Runs `act` on each of many connections. A connection that ends is opened again."""

    async def client() -> None:
        while True:
            with suppress(OSError, EOFError, RuntimeError):
                stream = await asyncio.open_connection("127.0.0.1", port)
                try:
                    await act(stream)
                finally:
                    stream[1].transport.abort()
            await asyncio.sleep(RETRY_SECONDS)

    await asyncio.gather(*(client() for _ in range(clients)))


async def flood(start: bytes, part: bytes, stream: Stream) -> None:
    """Sends the same bytes without an end."""
    reader, writer = stream
    writer.write(start)
    while not reader.at_eof():
        writer.write(part)
        await writer.drain()
        await asyncio.sleep(0.005)


async def idle(stream: Stream) -> None:
    await stream[0].read()


async def slow_body(num_bytes: int, part: int, stream: Stream) -> None:
    """Sends a body in parts, and withholds its last byte; gives up after a refusal."""
    reader, writer = stream
    body = json.dumps(SENTENCE).encode().ljust(num_bytes)
    await asyncio.sleep(random.uniform(0, PART_SECONDS))
    request = Address("127.0.0.1", 80, "").request("POST", "/translate", body)
    writer.write(request[:-num_bytes])
    for begin in range(0, num_bytes - 1, part):
        writer.write(body[begin : min(begin + part, num_bytes - 1)])
        await writer.drain()
        received = reader._buffer  # type: ignore[attr-defined]
        if reader.at_eof() or received.startswith(b"HTTP/1.1 4"):
            return
        await asyncio.sleep(PART_SECONDS)
    await reader.read(1)


ATTACKS: dict[str, Callable[[int], Awaitable[None]]] = {
    "endless header": partial(repeat, partial(flood, START + b"X-Endless: ", b"a" * 65536), 1),
    "small headers": partial(repeat, partial(flood, START, b"a:b\r\n" * 10_000), 60),
    "idle": partial(repeat, idle, 1500),
    "slow bodies": partial(repeat, partial(slow_body, 2 * 1024 * 1024, 65536), 500),
    "full buffer": partial(repeat, partial(slow_body, 1_400_000, 50_000), 400),
}
