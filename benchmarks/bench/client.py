"""A small HTTP/1.1 client for load tests.

The client must need little CPU time, because it shares the cores with the server.

It sends plain HTTP on keep-alive connections, one request at a time on each connection. It reads
replies that have a Content-Length or are chunked. It does not support TLS, redirects, compressed
replies or pipelining.

* BenchError: an error that ends the command
  * RequestError: one request got no reply; the load generator counts errors of this class
"""

import asyncio
from contextlib import closing
from typing import NamedTuple, Self, cast
from urllib.parse import urlsplit

import uvloop
from httptools import HttpParserError, HttpResponseParser

REQUEST_TIMEOUT_SECONDS = 60.0
SHOWN_BYTES = 500
LENGTHS = {b"content-length", b"transfer-encoding"}
"""A reply must have one of these headers. Otherwise it would end with its connection."""


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


class Connection(asyncio.Protocol):
    """One keep-alive connection. After a failure it is closed and cannot be used again."""

    def __init__(self, timeout_seconds: float) -> None:
        self._timeout_seconds = timeout_seconds
        self._parser = HttpResponseParser(self)
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
        if self.is_closed:
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
        try:
            self._parser.feed_data(data)
        except HttpParserError as error:
            self._fail(RequestError("protocol", f"not an HTTP/1 reply: {error}: {data[:80]!r}"))

    # The parser calls the next methods. After an exception in one of them, it raises an error.

    def on_message_begin(self) -> None:
        if self._waiting is None:
            raise ValueError("no request is in progress")
        self._headers: set[bytes] = set()
        self._body: list[bytes] = []

    def on_header(self, name: bytes, _value: bytes) -> None:
        self._headers.add(name.lower())

    def on_headers_complete(self) -> None:
        if LENGTHS.isdisjoint(self._headers):
            raise ValueError("the length of the body is not known")

    def on_body(self, body: bytes) -> None:
        self._body.append(body)

    def on_message_complete(self) -> None:
        is_last = not self._parser.should_keep_alive()
        has_retry_after = b"retry-after" in self._headers
        body = b"".join(self._body)
        reply = Reply(self._parser.get_status_code(), body, is_last, has_retry_after)
        if is_last:
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
