"""A small HTTP/1.1 client for load: it shares the cores with the server it measures.

Plain HTTP on keep-alive connections, one request at a time, replies with a Content-Length. Left
out: TLS, redirects, chunked and compressed replies, pipelining.

* BenchError: the benchmark cannot go on
  * RequestError: one request got no reply
"""

import asyncio
import re
from typing import NamedTuple, Self
from urllib.parse import urlsplit

REQUEST_TIMEOUT_SECONDS = 60.0

_CONTENT_LENGTH = re.compile(rb"\r\ncontent-length:[ \t]*(\d+)", re.IGNORECASE)
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


def parse_reply(buffer: bytes | bytearray) -> Reply | None:
    """Read the reply at the start of `buffer`; None while a part of it is still to come.

    Raises:
        RequestError: this is no HTTP/1 reply with a Content-Length.
    """
    head_end = buffer.find(b"\r\n\r\n")
    if head_end < 0:
        return None
    head = bytes(buffer[:head_end])
    length = _CONTENT_LENGTH.search(head)
    if length is None or not head.startswith(b"HTTP/1.") or not head[9:12].isdigit():
        raise RequestError("protocol", f"no HTTP/1 reply with a Content-Length: {head[:80]!r}")
    body_start = head_end + 4
    body_end = body_start + int(length[1])
    if len(buffer) < body_end:
        return None
    body = bytes(buffer[body_start:body_end])
    return Reply(int(head[9:12]), body, _CLOSE.search(head) is not None)


class Connection(asyncio.Protocol):
    """One keep-alive connection; after a failure it is closed and another must be opened."""

    def __init__(self, timeout_seconds: float = REQUEST_TIMEOUT_SECONDS) -> None:
        self._timeout_seconds = timeout_seconds
        self._loop = asyncio.get_running_loop()
        self._buffer = bytearray()
        self._reply: asyncio.Future[Reply] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._transport: asyncio.Transport

    @classmethod
    async def open(
        cls, address: Address, timeout_seconds: float = REQUEST_TIMEOUT_SECONDS
    ) -> "Connection":
        """Connect to the server.

        Raises:
            RequestError: of kind `connect`.
        """
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(timeout_seconds):
                transport, connection = await loop.create_connection(
                    lambda: cls(timeout_seconds), address.host, address.port
                )
        except OSError as error:  # TimeoutError is one of them
            detail = f"{address.host}:{address.port}: {error}; is the server running?"
            raise RequestError("connect", detail) from error
        connection._transport = transport
        return connection

    @property
    def is_closed(self) -> bool:
        """True when no further request can be sent."""
        return self._transport.is_closing()

    def send(self, request: bytes) -> asyncio.Future[Reply]:
        """Send one request, only after the reply to the one before.

        Returns:
            The reply to come, or a RequestError of kind `timeout`, `closed` or `protocol`.
        """
        self._reply = self._loop.create_future()
        self._timer = self._loop.call_later(
            self._timeout_seconds, self._fail, "timeout", f"no reply in {self._timeout_seconds:g} s"
        )
        self._transport.write(request)
        return self._reply

    def close(self) -> None:
        """Close the connection; a reply still awaited fails as `closed`."""
        self._transport.close()

    def data_received(self, data: bytes) -> None:
        """Take what the server sent and settle the awaited reply once it is whole."""
        self._buffer += data
        try:
            reply = parse_reply(self._buffer)
        except RequestError as error:
            self._settle(error)
            return
        if reply is not None:
            self._buffer.clear()
            self._settle(reply)

    def connection_lost(self, error: Exception | None) -> None:
        """Fail the awaited reply, if there is one."""
        self._fail("closed", f"the connection ended before the reply ({error or 'end of file'})")

    def _fail(self, kind: str, detail: str) -> None:
        self._settle(RequestError(kind, detail))

    def _settle(self, outcome: Reply | RequestError) -> None:
        """Settle the awaited reply; close unless the connection can carry another request."""
        awaited, self._reply = self._reply, None
        if self._timer is not None:
            self._timer.cancel()
        if isinstance(outcome, RequestError) or outcome.is_last or awaited is None:
            self._transport.close()
        if awaited is None or awaited.done():
            return
        if isinstance(outcome, RequestError):
            awaited.set_exception(outcome)
        else:
            awaited.set_result(outcome)
