"""One HTTP/1.1 connection of a client, with limits of sizes and times.

uvicorn parses requests and writes replies. It has no limits for headers, slow clients and the
number of open connections, so this module adds them.
"""

import asyncio
import socket
from collections.abc import Callable
from typing import Any, NamedTuple

import httptools
import uvicorn
from uvicorn.protocols.http.flow_control import HIGH_WATER_LIMIT
from uvicorn.protocols.http.httptools_impl import (
    STATUS_LINE,
    HttpToolsProtocol,
    RequestResponseCycle,
)
from uvicorn.server import ServerState

from service.http_server.byte_budget import UnreadReply
from service.http_server.early_refusals import EarlyRefusals, RawHeaders, Template
from service.http_server.loop_load import account_of, content_length, first_values
from service.http_server.pool import ConnectionPool
from service.http_server.refusals import (
    Refusal,
    check_host,
    header_too_large,
    malformed,
    too_many_connections,
)

HEAD_BYTES = 2048
"""Longer headers are parsed in parts of this many bytes. The limits are checked between the parts.

The headers of most requests are smaller. 32 KiB may hold 6,000 headers, which take 3 ms to parse.
"""

MAX_PIPELINED = 8
"""Number of requests that wait for the reply before theirs. Further bytes are parsed later.

A part of HEAD_BYTES may have some requests more.
"""

PEER_SECONDS = (0.01, 0.5)
"""First and longest time between two checks of a client that has ended its side of a connection."""

PROBE = b"HTTP/1.1 100 Continue\r\n\r\n"

TCP_CLOSE = 7
"""State of a closed connection, as TCP_INFO reports it.

Source: include/net/tcp_states.h of Linux.
"""

HOPS = (b"upgrade", b"http2-settings", b"connection")
"""Headers that are removed when a request for another protocol is served as HTTP/1.1."""


class HttpServerConfig(uvicorn.Config):
    def __init__(
        self, app: Any, pool: ConnectionPool, early: EarlyRefusals, **options: Any
    ) -> None:
        super().__init__(app, http=Connection, ws="none", interface="asgi3", **options)
        self.pool = pool
        self.early = early


ARRIVAL_KEY = "arrival"  # name of the Arrival in the state of an ASGI scope


class Arrival(NamedTuple):
    connection: "Connection | None" = None  # None if an ASGI client in this process sent it
    headers: dict[bytes, bytes] | None = None  # first value of each header; None if not read yet
    is_admitted: bool | None = None  # whether LoopLoad accepts it; None if it has not been counted
    # Start of the turn of the event loop in which the request arrived, by time.perf_counter. The
    # deadline counts from this start.
    began: float | None = None


NO_ARRIVAL = Arrival()


class Connection(HttpToolsProtocol):
    """Parses the requests of one connection and writes the replies.

    `cycle` is the newest request, and `running` the one whose reply is computed or written.
    """

    def __init__(
        self,
        config: HttpServerConfig,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self.early = config.early
        self.pool = config.pool
        self.settings = config.pool.settings
        self.last_active = self.answered = self.loop.time()
        self.is_refused = False
        self.is_open = False  # whether a request has begun to arrive and is incomplete
        self.is_head = False  # whether its first line and its headers are incomplete
        self.head_began, self.head_bytes = 0.0, 0
        self.first_headers: dict[bytes, bytes] = {}  # first value of each header of a request
        self.num_body = 0  # bytes of bodies that have arrived
        self.body_began = 0  # value of `num_body` when the last request began
        self.overhead = 0  # bytes outside the body, since bytes of the body last arrived
        self.unparsed = b""  # parsed when the pipeline is empty; no bytes are read until then
        self.early_refusal: Template | None = None  # of the request that is being read
        self.fault: Refusal | None = None  # follows the replies to the requests before it
        self.running: RequestResponseCycle | None = None
        self.on_lost: Callable[[], None] | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.unread = UnreadReply(transport, self.pool.budget)
        self.is_refused = not self.pool.add(self, self.loop)
        if self.is_refused and self.pool.is_flooded:
            transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        if self.on_lost is not None:
            self.on_lost()
        self.pool.discard(self)
        self.unread.end()
        if self.running is not None and not self.running.response_complete:
            self.running.disconnected = True  # uvicorn does this for the newest request only
            self.running.message_event.set()
        super().connection_lost(exc)
        # The request's state refers to this connection. Without references from the connection to
        # the request, both are freed at once, before any garbage collection.
        self.cycle = self.scope = self.running = None  # type: ignore[assignment]

    def take_body(self) -> bytes | None:
        """Returns the body of the running request; None if a part of it has not arrived."""
        cycle = self.running
        if cycle is None or cycle.more_body or cycle.disconnected:
            return None
        body = bytes(cycle.body)
        cycle.body.clear()
        return body

    def watch(self, on_lost: Callable[[], None]) -> None:
        """Sets `on_lost`, which is called when the connection ends. The body has been read."""
        self.on_lost = on_lost
        if self.transport.is_closing():
            on_lost()
        if self.flow.read_paused:  # a large body may have paused the reading
            self.flow.resume_reading()

    def reply(self, status: int, headers: RawHeaders, body: bytes | memoryview) -> bool:
        """Writes a whole response; returns False if only messages of ASGI can send it."""
        # uvicorn writes headers and body separately. The client would wake up for the headers
        # alone, and each write is a system call.
        cycle = self.running
        if cycle is None or cycle.disconnected or not cycle.keep_alive or self.flow.write_paused:
            return False
        lines = map(b": ".join, (*self.server_state.default_headers, *headers))
        head = b"%b%b\r\n\r\n" % (STATUS_LINE[status], b"\r\n".join(lines))
        self.transport.writelines((head, body))
        cycle.response_started = cycle.response_complete = True
        self.on_response_complete()
        return True

    def eof_received(self) -> bool | None:  # type: ignore[override]
        """Keeps the connection open if the client waits for a reply after it has ended its side.

        A client that has closed the whole connection causes the same event, but its operating
        system answers an interim response with a reset. Clients of HTTP/1.0 do not know interim
        responses, so their requests run to the end.
        """
        cycle = self.cycle
        if self.is_open or cycle is None or cycle.response_complete:
            return None
        if cycle is self.running and cycle.response_started:
            return None
        cycle.keep_alive = self.fault is not None and cycle.keep_alive
        is_writing = self.running is not None and self.running.response_started
        if cycle.scope["http_version"] == "1.1" and not is_writing:
            self.transport.write(PROBE)
        self._check_peer(PEER_SECONDS[0])
        return True

    def _check_peer(self, seconds: float) -> None:
        if self.transport.is_closing() or self.cycle.response_complete:
            return
        peer: socket.socket = self.transport.get_extra_info("socket")
        if peer.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1)[0] == TCP_CLOSE:
            self.transport.abort()
        else:
            self.loop.call_later(seconds, self._check_peer, min(2 * seconds, PEER_SECONDS[1]))

    def data_received(self, data: bytes) -> None:
        self.last_active = self.loop.time()
        if self.is_refused:
            self._refuse(too_many_connections(self.pool.max_connections))
            return
        if len(data) <= HEAD_BYTES and not self.pipeline and self.fault is None:
            self._feed(data)
        else:
            self._parse(data)

    def _parse(self, data: bytes) -> None:
        begin = 0
        while begin < len(data) and self.fault is None and not self.transport.is_closing():
            if len(self.pipeline) >= MAX_PIPELINED:
                self.unparsed += data[begin:]
                self.flow.pause_reading()
                self.flow.read_paused = False  # so that uvicorn does not resume the reading
                return
            end = begin + self._part_bytes()
            self._feed(data[begin:end])
            begin = end

    def _part_bytes(self) -> int:
        if self.is_head or not self.is_open:
            return HEAD_BYTES
        left = content_length(self.first_headers) - (self.num_body - self.body_began)
        return min(max(left, HEAD_BYTES), self.settings.max_header_bytes)

    def _parse_held(self) -> None:
        if self.transport.is_closing():
            return
        rest, self.unparsed = self.unparsed, b""
        self._parse(rest)
        if not self.unparsed:
            self.flow.read_paused = True
            self.flow.resume_reading()

    def _feed(self, data: bytes) -> None:
        num_body = self.num_body
        try:
            self.parser.feed_data(data)
            if self.is_open:
                self._check_size(len(data), num_body)
        except httptools.HttpParserUpgrade as upgrade:
            self._ignore_upgrade(data[upgrade.args[0] :])
        except httptools.HttpParserError as error:
            cause = error.__context__
            self._refuse(next((e for e in (error, cause) if isinstance(e, Refusal)), malformed()))

    def _check_size(self, num_bytes: int, num_body: int) -> None:
        if self.is_head:
            self.head_bytes += num_bytes
            self._check_head(self.head_bytes)
        elif self.num_body == num_body:
            self.overhead += num_bytes
            if self.overhead > self.settings.max_header_bytes:
                raise header_too_large("bytes follow the headers", self.settings.max_header_bytes)
        else:
            self.overhead = 0
            if self.early_refusal is None:
                self.cycle.message_event.set()

    def _check_head(self, num_bytes: int) -> None:
        if num_bytes > self.settings.max_header_bytes:
            raise header_too_large(f"headers of {num_bytes} bytes", self.settings.max_header_bytes)
        if len(self.headers) > self.settings.max_headers:
            raise Refusal(
                431,
                "header_too_large",
                f"the request has {len(self.headers)} headers or more; the limit is "
                f"{self.settings.max_headers}. Send fewer, or raise REGARD_MAX_HEADERS.",
            )

    def _ignore_upgrade(self, rest: bytes) -> None:
        """Serves a request for another protocol, such as h2c, as a request of HTTP/1.1.

        The parser stops at the end of the headers of such a request. A new parser gets the request
        again without the header `Upgrade`.
        """
        if self.method == b"CONNECT":
            self._refuse(malformed())
            return
        head = [self.method + b" " + self.url + b" HTTP/1.1"]
        head += [name + b": " + value for name, value in self.headers if name not in HOPS]
        if not self.parser.should_keep_alive():
            head.append(b"connection: close")
        self.parser = httptools.HttpRequestParser(self)
        self._feed(b"\r\n".join([*head, b"", b""]))
        if rest and not self.transport.is_closing():
            self._feed(rest)

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self.is_open = self.is_head = True
        self.head_began = self.last_active
        self.head_bytes = self.overhead = 0
        self.body_began = self.num_body

    def on_header(self, name: bytes, value: bytes) -> None:
        # RFC 9110, section 6.5.1: a proxy may remove keys and addresses from headers only.
        if self.is_head:  # not the trailer of a body
            name = name.lower()
            if name == b"expect" and value.lower() == b"100-continue":
                self.expect_100_continue = True
            self.headers.append((name, value))

    def on_headers_complete(self) -> None:
        if self.head_bytes or len(self.headers) > self.settings.max_headers:
            fields = sum(len(name) + len(value) + 4 for name, value in self.headers)
            self._check_head(len(self.url) + fields)
        check_host(self.headers, self.parser)
        self.is_head = False
        self.first_headers = first_values(self.headers)
        if self.parser.should_upgrade():
            self.method = self.parser.get_method()
            return
        template = self.early.templates.get(self.url)
        if template is not None and self.parser.get_method() == b"POST":
            self._count(template)
        else:
            self.scope["state"][ARRIVAL_KEY] = Arrival(self, self.first_headers)
        if self.early_refusal is None:
            super().on_headers_complete()

    def _count(self, template: Template) -> None:
        load, address = self.early.load, self.client[0] if self.client else ""
        headers = self.first_headers
        is_admitted = load.admits(account_of(address, headers))
        self.scope["state"][ARRIVAL_KEY] = Arrival(self, headers, is_admitted, load.turn_began)
        if is_admitted:
            return
        is_next = self.cycle is None or self.cycle.response_complete
        # Earlier responses are complete, and the client has read enough of them.
        can_write = is_next and not self.flow.write_paused
        if can_write and self.early.suffices(headers):
            if self.parser.get_http_version() == "1.1" and self.parser.should_keep_alive():
                self.early_refusal = template

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        self.running = cycle
        task = self.loop.create_task(cycle.run_asgi(app))
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    def on_body(self, body: bytes) -> None:
        self.num_body += len(body)
        cycle = self.cycle
        if self.early_refusal or cycle.response_complete:
            return
        cycle.body += body
        if len(cycle.body) > HIGH_WATER_LIMIT:
            self.flow.pause_reading()

    def on_message_complete(self) -> None:
        if self.parser.should_upgrade():
            return
        self.is_open = False
        if self.early_refusal:
            self.early.add(self.early_refusal)
            self.transport.write(self.early_refusal.response(self.server_state.default_headers))
            self.server_state.total_requests += 1
            self.early_refusal = None
            self.answered = self.last_active
        elif not self.cycle.response_complete:
            self.cycle.more_body = False
            self.cycle.message_event.set()

    def on_response_complete(self) -> None:
        self.server_state.total_requests += 1
        self.last_active = self.answered = self.loop.time()
        if self.transport.is_closing():
            return
        if self.flow.read_paused:
            self.flow.resume_reading()
        if self.pipeline:
            self._start_asgi_task(*self.pipeline.pop())
        elif self.fault is not None:
            self._send(self.fault)
        if self.unparsed and not self.pipeline:
            self.loop.call_soon(self._parse_held)

    def _refuse(self, refusal: Refusal) -> None:
        """Answers with an error after the replies to valid requests; closes the connection."""
        cycle = self.cycle
        if self.transport.is_closing():
            return
        if cycle is None or cycle.response_complete:
            self._send(refusal)
            return
        if cycle.more_body and not self.is_head:  # the fault is in the body of this request
            if cycle is self.running:
                cycle.disconnected = True  # so the application sends no reply
                self.transport.write(b"" if cycle.response_started else refusal.response())
                self.transport.close()
                return
            self.pipeline.popleft()
            assert self.running is not None
            self.cycle = self.pipeline[0][0] if self.pipeline else self.running
        self.fault = refusal
        self.is_open = self.is_head = False

    def _send(self, refusal: Refusal) -> None:
        self.transport.write(refusal.response())
        self.transport.close()

    @property
    def idle_since(self) -> float | None:  # None while the connection serves a request
        is_answered = self.cycle is None or self.cycle.response_complete
        if not is_answered or self.transport.get_write_buffer_size():
            return None
        if self.is_head:  # while a reply was due, the head was not read
            return max(self.head_began, self.answered)
        return self.answered if self.is_open else self.last_active

    def close(self) -> None:
        self.transport.close()

    def check(self, now: float) -> None:
        settings = self.settings
        if self.unread.has_stalled(now, settings.write_timeout_seconds, self.flow.write_paused):
            self.transport.abort()
        since = self.idle_since
        if since is None or self.transport.is_closing():
            return
        if self.is_refused and now - since > self.pool.check_seconds:
            self._refuse(too_many_connections(self.pool.max_connections))
        elif self.is_head and now - since > settings.header_timeout_seconds:
            late = f"the headers have not arrived within {settings.header_timeout_seconds:g} s"
            way_out = "send them at once, or raise REGARD_HEADER_TIMEOUT_SECONDS"
            self._refuse(Refusal(408, "header_timeout", f"{late}; {way_out}"))
        elif now - since > settings.idle_timeout_seconds:
            self.transport.close()

    def pause_writing(self) -> None:
        super().pause_writing()
        self.unread.pause()

    def resume_writing(self) -> None:
        super().resume_writing()
        self.unread.resume()
