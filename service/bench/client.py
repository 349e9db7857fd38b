"""A small HTTP/1.1 client for load tests.

It must need little CPU time, because it shares the cores with the server.

It sends plain HTTP on keep-alive connections, one request at a time. It reads replies that have a
Content-Length or are chunked. It has no TLS, redirects, compressed replies or pipelining.

* BenchError: an error of the benchmark; it ends the command, unless it is a counted RequestError
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
    """An error of the benchmark.

    It ends the command, unless it is a RequestError that the load generator counts.
    """


class RequestError(BenchError):
    """One request got no reply.

    Attributes:
        kind: `connect`, `timeout`, `closed` or `protocol`; errors are counted by kind.
    """

    def __init__(self, kind: str, detail: str) -> None:
        super().__init__(f"{kind}: {detail}")
        self.kind = kind


class Address(NamedTuple):
    """Address of the server; `prefix` stands before every path."""

    host: str
    port: int
    prefix: str

    @classmethod
    def parse(cls, url: str) -> Self:
        """Parses `http://HOST[:PORT][/PREFIX]`, and ignores a user, a query and a fragment.

        Raises:
            BenchError: The URL is malformed, has no host, or has another scheme than http.
        """
        try:
            parts = urlsplit(url)
            host, port = parts.hostname, parts.port or 80
        except ValueError as error:
            raise BenchError(f"url {url!r}: {error}; give it as http://HOST:PORT") from error
        if parts.scheme != "http" or not host:
            raise BenchError(
                f"url {url!r} is not a plain HTTP address; give it as http://HOST:PORT"
            )
        return cls(host, port, parts.path.rstrip("/"))

    def request(
        self, method: str, path: str, body: bytes = b"", timeout_ms: int | None = None
    ) -> bytes:
        """Encodes one request; the body is JSON, and `timeout_ms` becomes X-Request-Timeout-Ms."""
        timeout = f"X-Request-Timeout-Ms: {timeout_ms}\r\n" if timeout_ms is not None else ""
        head = (
            f"{method} {self.prefix}{path} HTTP/1.1\r\nHost: {self.host}:{self.port}\r\n{timeout}"
            f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        )
        return head.encode("ascii") + body


class Reply(NamedTuple):
    """One complete reply.

    Attributes:
        status: HTTP status.
        body: The whole body.
        is_last: Whether the server closes the connection after the reply.
        has_retry_after: Whether the reply has the header Retry-After.
    """

    status: int
    body: bytes
    is_last: bool
    has_retry_after: bool = False

    @property
    def excerpt(self) -> str:
        """First bytes of the body, for an error message."""
        return self.body[:SHOWN_BYTES].decode("utf-8", errors="replace")


class Connection:
    """One keep-alive connection; it is closed after a failure and cannot be used again."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, timeout_seconds: float
    ) -> None:
        self._reader, self._writer = reader, writer
        self._timeout_seconds = timeout_seconds

    @classmethod
    async def open(cls, address: Address, timeout_seconds: float = REQUEST_TIMEOUT_SECONDS) -> Self:
        """Connects to the server.

        Raises:
            RequestError: The connection failed; the kind is `connect`.
        """
        try:
            async with asyncio.timeout(timeout_seconds):
                streams = await asyncio.open_connection(address.host, address.port)
        except OSError as error:  # TimeoutError is an OSError
            detail = f"{address.host}:{address.port}: {error}; is the server running?"
            raise RequestError("connect", detail) from error
        return cls(*streams, timeout_seconds)

    @property
    def is_closed(self) -> bool:
        """Whether the connection is closed, so that no request can be sent on it."""
        return self._writer.is_closing() or self._reader.at_eof()

    async def send(self, request: bytes) -> Reply:
        """Sends one request and returns its reply.

        Raises:
            RequestError: No reply came; the kind is `timeout`, `closed` or `protocol`.
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
        """Closes the connection."""
        self._writer.close()


async def read_reply(reader: asyncio.StreamReader) -> Reply:
    """Reads one reply.

    Raises:
        RequestError: The data is not an HTTP/1 reply, or has neither a Content-Length nor chunks.
        EOFError: The stream ended inside the reply.
    """
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except asyncio.LimitOverrunError as error:
        raise RequestError("protocol", f"the headers do not end: {error}") from error
    length = _CONTENT_LENGTH.search(head)
    is_framed = length is not None or _CHUNKED.search(head) is not None
    if not (is_framed and head.startswith(b"HTTP/1.") and head[9:12].isdigit()):
        raise RequestError("protocol", f"not an HTTP/1 reply with a known length: {head[:80]!r}")
    body = (
        await _read_chunks(reader) if length is None else await reader.readexactly(int(length[1]))
    )
    has_retry_after = b"\r\nretry-after:" in head.lower()
    return Reply(int(head[9:12]), body, _CLOSE.search(head) is not None, has_retry_after)


async def _read_chunks(reader: asyncio.StreamReader) -> bytes:
    """Reads a chunked body. Chunk extensions are not supported, and neither are trailers."""
    body = bytearray()
    while size := await _read_size(reader):
        body += await reader.readexactly(size)
        await reader.readexactly(2)  # the line break after the chunk
    await reader.readexactly(2)
    return bytes(body)


async def _read_size(reader: asyncio.StreamReader) -> int:
    """Reads the size of the next chunk in bytes; the last chunk has size 0."""
    try:
        line = await reader.readuntil(b"\r\n")
    except asyncio.LimitOverrunError as error:
        raise RequestError("protocol", f"the size of a chunk does not end: {error}") from error
    if _CHUNK_SIZE.fullmatch(line) is None:
        raise RequestError("protocol", f"not the size of a chunk: {line[:80]!r}")
    return int(line, 16)


async def send_once(
    address: Address, request: bytes, timeout_seconds: float = REQUEST_TIMEOUT_SECONDS
) -> Reply:
    """Sends one request on a new connection and returns its reply.

    Raises:
        RequestError: No reply came; every `kind` of RequestError is possible.
    """
    with closing(await Connection.open(address, timeout_seconds)) as connection:
        return await connection.send(request)
