"""A small HTTP/1.1 client for load tests.

The client must need little CPU time, because it shares the cores with the server.

It sends plain HTTP on keep-alive connections, one request at a time on each connection. It reads
replies that have a Content-Length or are chunked. It does not support TLS, redirects, compressed
replies or pipelining.

* BenchError: an error that ends the command
  * RequestError: one request got no reply; the load generator counts errors of this class
"""

import asyncio
import re
from contextlib import closing
from typing import NamedTuple, Self, cast
from urllib.parse import urlsplit

import uvloop

REQUEST_TIMEOUT_SECONDS = 60.0
SHOWN_BYTES = 500
MAX_HEAD_BYTES = 65536
MAX_CHUNK_LINE = 10
"""Largest length, in bytes, of a line with the size of a chunk: eight digits and the line break."""

_CONTENT_LENGTH = re.compile(rb"\r\ncontent-length:[ \t]*(\d+)", re.IGNORECASE)
_CHUNKED = re.compile(rb"\r\ntransfer-encoding:[ \t]*chunked", re.IGNORECASE)
_CHUNK_SIZE = re.compile(rb"[0-9a-fA-F]{1,8}\r\n")
_CLOSE = re.compile(rb"\r\nconnection:[ \t]*close", re.IGNORECASE)
_RETRY_AFTER = re.compile(rb"\r\nretry-after:", re.IGNORECASE)


class BenchError(Exception):
    """Ends the command, unless it is a RequestError that the load generator counts."""


class RequestError(BenchError):
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
        """Parses `http://HOST[:PORT][/PREFIX]`, and ignores a user, a query and a fragment."""
        try:
            parts = urlsplit(url)
            host, port = parts.hostname, parts.port or 80
            (host or "").encode("idna")  # raises UnicodeError, which is a ValueError
            parts.path.encode("ascii")
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
        host = f"[{self.host}]" if ":" in self.host else self.host
        timeout = f"X-Request-Timeout-Ms: {timeout_ms}\r\n" if timeout_ms is not None else ""
        head = (
            f"{method} {self.prefix}{path} HTTP/1.1\r\nHost: {host}:{self.port}\r\n{timeout}"
            f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        )
        return head.encode("ascii") + body


class Reply(NamedTuple):
    status: int  # HTTP status
    body: bytes  # the whole body
    is_last: bool  # whether the server closes the connection after the reply
    has_retry_after: bool = False  # whether the reply has the header Retry-After

    @property
    def excerpt(self) -> str:
        return self.body[:SHOWN_BYTES].decode("utf-8", errors="replace")


class ReplyParser:
    """Splits the received bytes of a connection into replies."""

    def __init__(self) -> None:
        self.received = bytearray()
        self._head = b""
        self._chunks: bytearray | None = None

    def next_reply(self) -> Reply | None:
        """Takes the next reply from the received bytes; returns None while a part is missing."""
        if not self._head and not self._take_head():
            return None
        body = self._take_body() if self._chunks is None else self._take_chunks(self._chunks)
        if body is None:
            return None
        head, self._head, self._chunks = self._head, b"", None
        is_last = _CLOSE.search(head) is not None
        return Reply(int(head[9:12]), body, is_last, _RETRY_AFTER.search(head) is not None)

    def _take_head(self) -> bool:
        end = self.received.find(b"\r\n\r\n") + 4
        if end < 4:
            if len(self.received) > MAX_HEAD_BYTES:
                raise RequestError("protocol", f"the headers exceed {MAX_HEAD_BYTES} bytes")
            return False
        head = bytes(self.received[:end])
        length = _CONTENT_LENGTH.search(head)
        is_framed = length is not None or _CHUNKED.search(head) is not None
        if not (is_framed and head.startswith(b"HTTP/1.") and head[9:12].isdigit()):
            raise RequestError(
                "protocol", f"not an HTTP/1 reply with a known length: {head[:80]!r}"
            )
        del self.received[:end]
        self._head = head
        self._length = int(length[1]) if length is not None else 0
        self._chunks = bytearray() if length is None else None
        return True

    def _take_body(self) -> bytes | None:
        if len(self.received) < self._length:
            return None
        body = bytes(self.received[: self._length])
        del self.received[: self._length]
        return body

    def _take_chunks(self, chunks: bytearray) -> bytes | None:
        """Takes chunks until the body is complete; returns None while a part is missing.

        Chunk extensions and trailers are not supported.
        """
        while True:
            line_end = self.received.find(b"\r\n", 0, MAX_CHUNK_LINE)
            if line_end < 0 and len(self.received) < MAX_CHUNK_LINE:
                return None
            line = bytes(self.received[: line_end + 2])
            if _CHUNK_SIZE.fullmatch(line) is None:
                raise RequestError("protocol", f"not the size of a chunk: {line[:80]!r}")
            end = len(line) + int(line, 16)
            if len(self.received) < end + 2:  # a line break follows the chunk
                return None
            chunks += self.received[len(line) : end]
            del self.received[: end + 2]
            if end == len(line):
                return bytes(chunks)


class Connection(asyncio.Protocol):
    """One keep-alive connection. After a failure it is closed and cannot be used again."""

    def __init__(self, timeout_seconds: float) -> None:
        self._timeout_seconds = timeout_seconds
        self._parser = ReplyParser()
        self._loop = asyncio.get_running_loop()
        self._waiting: asyncio.Future[Reply] | None = None
        self._is_ended = False

    @classmethod
    async def open(cls, address: Address, timeout_seconds: float = REQUEST_TIMEOUT_SECONDS) -> Self:
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(timeout_seconds):
                _, connection = await loop.create_connection(
                    lambda: cls(timeout_seconds), address.host, address.port
                )
        except OSError as error:  # TimeoutError is an OSError
            detail = f"{address.host}:{address.port}: {error}; is the server running?"
            raise RequestError("connect", detail) from error
        return connection

    @property
    def is_closed(self) -> bool:
        return self._is_ended or self._transport.is_closing()

    async def send(self, request: bytes) -> Reply:
        """Sends one request and returns its reply."""
        waiting: asyncio.Future[Reply] = self._loop.create_future()
        self._waiting = waiting
        self._timer = self._loop.call_later(self._timeout_seconds, self._time_out)
        if self._is_ended:
            self._fail(RequestError("closed", "the connection ended before the request"))
        else:
            self._transport.write(request)
        try:
            return await waiting
        except asyncio.CancelledError:
            self.close()
            raise

    def close(self) -> None:
        self._transport.close()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        """Ends the request in progress if its reply is complete; asyncio calls this method."""
        self._parser.received += data
        if self._waiting is None:
            return
        try:
            reply = self._parser.next_reply()
        except RequestError as error:
            self._fail(error)
            return
        if reply is None:
            return
        if reply.is_last:
            self.close()
        if (waiting := self._take_waiting()) is not None:
            waiting.set_result(reply)

    def eof_received(self) -> None:
        self.connection_lost(None)

    def connection_lost(self, error: Exception | None) -> None:
        self._is_ended = True
        detail = f"the connection ended before the reply ({error}); is the server running?"
        self._fail(RequestError("closed", detail))

    def _time_out(self) -> None:
        self._fail(RequestError("timeout", f"no reply in {self._timeout_seconds:g} s"))

    def _fail(self, error: RequestError) -> None:
        self.close()
        if (waiting := self._take_waiting()) is not None:
            waiting.set_exception(error)

    def _take_waiting(self) -> asyncio.Future[Reply] | None:
        """Ends the request in progress, and returns its future.

        Returns None if no request is in progress, or if the caller of the request was cancelled.
        """
        waiting, self._waiting = self._waiting, None
        if waiting is None:
            return None
        self._timer.cancel()
        return None if waiting.done() else waiting


async def send_once(
    address: Address, request: bytes, timeout_seconds: float = REQUEST_TIMEOUT_SECONDS
) -> Reply:
    with closing(await Connection.open(address, timeout_seconds)) as connection:
        return await connection.send(request)


def ask(url: str, method: str, path: str, body: bytes = b"") -> Reply:
    address = Address.parse(url)
    return uvloop.run(send_once(address, address.request(method, path, body)))
