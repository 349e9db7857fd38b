"""A small HTTP/1.1 client for load: it shares the cores with the server it measures.

Plain HTTP on keep-alive connections, one request at a time, replies with a Content-Length or in
chunks. Left out: TLS, redirects, compressed replies, pipelining.

* BenchError: the benchmark cannot go on
  * RequestError: one request got no reply
"""

import asyncio
import re
from contextlib import closing
from typing import NamedTuple, Self
from urllib.parse import urlsplit

REQUEST_TIMEOUT_SECONDS = 60.0
SHOWN_BYTES = 500

_CONTENT_LENGTH = re.compile(rb"\r\ncontent-length:[ \t]*(\d+)", re.IGNORECASE)
_CHUNKED = re.compile(rb"\r\ntransfer-encoding:[ \t]*chunked", re.IGNORECASE)
_CHUNK_SIZE = re.compile(rb"[0-9a-fA-F]{1,8}\r\n")
_CLOSE = re.compile(rb"\r\nconnection:[ \t]*close", re.IGNORECASE)


class BenchError(Exception):
    """The benchmark cannot go on; the message says what to do."""


class RequestError(BenchError):
    """One request got no reply.

    Attributes:
        kind: `connect`, `timeout`, `closed` or `protocol`; errors are counted by it.
    """

    def __init__(self, kind: str, detail: str) -> None:
        super().__init__(f"{kind}: {detail}")
        self.kind = kind


class Address(NamedTuple):
    """Where the server listens: `prefix` stands before every path."""

    host: str
    port: int
    prefix: str

    @classmethod
    def parse(cls, url: str) -> Self:
        """Read `http://HOST[:PORT][/PREFIX]`.

        Raises:
            BenchError: the URL is of another form (https included).
        """
        try:
            parts = urlsplit(url)
            host, port = parts.hostname, parts.port or 80
        except ValueError as error:
            raise BenchError(f"url {url!r}: {error}; give it as http://HOST:PORT") from error
        if parts.scheme != "http" or not host:
            raise BenchError(f"url {url!r} is no plain HTTP address; give it as http://HOST:PORT")
        return cls(host, port, parts.path.rstrip("/"))

    def request(self, method: str, path: str, body: bytes = b"") -> bytes:
        """Give the bytes of one request; a body is sent as JSON."""
        head = (
            f"{method} {self.prefix}{path} HTTP/1.1\r\nHost: {self.host}:{self.port}\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        )
        return head.encode("ascii") + body


class Reply(NamedTuple):
    """One complete reply; `is_last` means that the server closes the connection after it."""

    status: int
    body: bytes
    is_last: bool

    @property
    def excerpt(self) -> str:
        """The beginning of the body, for an error message."""
        return self.body[:SHOWN_BYTES].decode("utf-8", errors="replace")


class Connection:
    """One keep-alive connection; after a failure it is closed and another must be opened."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, timeout_seconds: float
    ) -> None:
        self._reader, self._writer = reader, writer
        self._timeout_seconds = timeout_seconds

    @classmethod
    async def open(cls, address: Address, timeout_seconds: float = REQUEST_TIMEOUT_SECONDS) -> Self:
        """Connect to the server.

        Raises:
            RequestError: of kind `connect`.
        """
        try:
            async with asyncio.timeout(timeout_seconds):
                streams = await asyncio.open_connection(address.host, address.port)
        except OSError as error:  # TimeoutError is one of them
            detail = f"{address.host}:{address.port}: {error}; is the server running?"
            raise RequestError("connect", detail) from error
        return cls(*streams, timeout_seconds)

    @property
    def is_closed(self) -> bool:
        """True when no further request can be sent."""
        return self._writer.is_closing() or self._reader.at_eof()

    async def send(self, request: bytes) -> Reply:
        """Send one request and wait for its reply.

        Raises:
            RequestError: of kind `timeout`, `closed` or `protocol`.
        """
        is_last = True
        try:
            async with asyncio.timeout(self._timeout_seconds):
                self._writer.write(request)
                reply = await read_reply(self._reader)
            is_last = reply.is_last
        except TimeoutError as error:
            raise RequestError("timeout", f"no reply in {self._timeout_seconds:g} s") from error
        except (EOFError, OSError) as error:
            detail = f"the connection ended before the reply ({error}); is the server running?"
            raise RequestError("closed", detail) from error
        finally:
            if is_last:
                self.close()
        return reply

    def close(self) -> None:
        """Close the connection."""
        self._writer.close()


async def read_reply(reader: asyncio.StreamReader) -> Reply:
    """Read one reply.

    Raises:
        RequestError: this is no HTTP/1 reply with a Content-Length or in chunks.
        EOFError: the stream ended inside it.
    """
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except asyncio.LimitOverrunError as error:
        raise RequestError("protocol", f"no end of the headers: {error}") from error
    length = _CONTENT_LENGTH.search(head)
    is_framed = length is not None or _CHUNKED.search(head) is not None
    if not (is_framed and head.startswith(b"HTTP/1.") and head[9:12].isdigit()):
        raise RequestError("protocol", f"no HTTP/1 reply with a Content-Length: {head[:80]!r}")
    body = (
        await _read_chunks(reader) if length is None else await reader.readexactly(int(length[1]))
    )
    return Reply(int(head[9:12]), body, _CLOSE.search(head) is not None)


async def _read_chunks(reader: asyncio.StreamReader) -> bytes:
    """A body in chunks, without extensions and trailers."""
    body = bytearray()
    while size := await _read_size(reader):
        body += await reader.readexactly(size)
        await reader.readexactly(2)  # its line end
    await reader.readexactly(2)
    return bytes(body)


async def _read_size(reader: asyncio.StreamReader) -> int:
    """Of the next chunk; 0 is the last."""
    try:
        line = await reader.readuntil(b"\r\n")
    except asyncio.LimitOverrunError as error:
        raise RequestError("protocol", f"no end of a chunk's size: {error}") from error
    if _CHUNK_SIZE.fullmatch(line) is None:
        raise RequestError("protocol", f"no size of a chunk: {line[:80]!r}")
    return int(line, 16)


async def send_once(
    address: Address, request: bytes, timeout_seconds: float = REQUEST_TIMEOUT_SECONDS
) -> Reply:
    """Send one request on a connection of its own.

    Raises:
        RequestError: of any kind.
    """
    with closing(await Connection.open(address, timeout_seconds)) as connection:
        return await connection.send(request)
