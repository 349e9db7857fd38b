"""Sends requests at fixed times, whether or not earlier requests have been answered."""

import selectors
import socket
from collections.abc import Iterable, Iterator
from time import perf_counter, sleep
from typing import Protocol

from benchmarks.bench.client import Address, Reply, ReplyParser, RequestError

CHUNK_BYTES = 65536

TICK_SECONDS = 0.001
"""Time between two rounds of sending and receiving. A request may be late by up to this time.

Each round sends several requests and reads several replies. This client takes 0.021 ms of CPU time
per request. A client that wakes up for each request and each reply takes 0.030 ms.
"""


def steady(per_second: float, seconds: float) -> Iterator[float]:
    return (number / per_second for number in range(int(per_second * seconds)))


class Results(Protocol):
    """Receives the results of requests."""

    def record(self, sent: float, now: float, reply: Reply) -> None:
        """Takes the reply to a request; `sent` and `now` are times by perf_counter."""

    def record_failure(self, sent: float, error: RequestError) -> None:
        """Takes the failure of a request without a reply."""


class Connection:
    """A non-blocking keep-alive connection with at most one request in progress."""

    def __init__(self, place: socket.socket) -> None:
        self.socket = place
        self.parser = ReplyParser()
        self.unsent = b""
        self.sent: float | None = None


class OpenLoop:
    """Sends requests, each on an idle connection or on a new one.

    This client shares the cores with the server, so it must need little CPU time. Its own loop over
    sockets takes a third less CPU time than asyncio, and sends requests closer to the fixed times.
    """

    def __init__(self, address: Address, requests: Iterator[bytes], timeout_seconds: float) -> None:
        self.address = address
        self.requests = requests
        self.timeout_seconds = timeout_seconds
        self.selector = selectors.DefaultSelector()
        self.idle: list[Connection] = []
        self.num_waiting = 0  # requests in progress
        try:
            places = socket.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM)
        except OSError as error:
            raise RequestError("connect", f"{address.host}: {error}") from error
        self.family, self.place = places[0][0], places[0][4]

    def run(self, moments: Iterable[float], results: Results) -> float:
        """Sends requests at fixed times, and waits for the replies, at most `timeout_seconds`."""
        begin = perf_counter()
        for moment in moments:
            while begin + moment > perf_counter():
                sleep(TICK_SECONDS)
                self._receive(0.0, results)
            self._begin(results)
        end = perf_counter()
        while self.num_waiting and (left := end + self.timeout_seconds - perf_counter()) > 0:
            self._receive(left, results)
        self._time_out(results)
        return end

    def close(self) -> None:
        for key in [*self.selector.get_map().values()]:
            self._close(key.data)
        self.selector.close()

    def _begin(self, results: Results) -> None:
        """Starts to send the next request."""
        request, sent = next(self.requests), perf_counter()
        self.num_waiting += 1
        if self.idle:
            connection = self.idle.pop()
        else:
            connection = Connection(socket.socket(self.family, socket.SOCK_STREAM))
            connection.socket.setblocking(False)
            connection.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            connection.socket.connect_ex(self.place)  # connects in the background
            self.selector.register(connection.socket, selectors.EVENT_READ, connection)
        connection.sent, connection.unsent = sent, request
        self._send(connection, results)

    def _send(self, connection: Connection, results: Results) -> None:
        try:
            count = connection.socket.send(connection.unsent)
        except BlockingIOError:
            count = 0
        except OSError as error:
            self._fail(connection, RequestError("connect", str(error)), results)
            return
        connection.unsent = connection.unsent[count:]
        if connection.unsent:
            events = selectors.EVENT_READ | selectors.EVENT_WRITE
            self.selector.modify(connection.socket, events, connection)

    def _receive(self, timeout: float, results: Results) -> None:
        """Waits for events at most `timeout` seconds, and handles them."""
        for key, events in self.selector.select(timeout):
            connection: Connection = key.data
            if events & selectors.EVENT_WRITE:
                self.selector.modify(connection.socket, selectors.EVENT_READ, connection)
                self._send(connection, results)
            if events & selectors.EVENT_READ and connection.socket.fileno() >= 0:
                self._read(connection, results)

    def _read(self, connection: Connection, results: Results) -> None:
        try:
            data = connection.socket.recv(CHUNK_BYTES)
            if not data:
                raise RequestError("closed", "the connection ended before the reply")
            connection.parser.received += data
            reply = None if connection.sent is None else connection.parser.next_reply()
        except BlockingIOError:
            return
        except OSError as error:
            self._fail(connection, RequestError("closed", str(error)), results)
            return
        except RequestError as error:
            self._fail(connection, error, results)
            return
        if reply is None:
            return
        assert connection.sent is not None
        results.record(connection.sent, perf_counter(), reply)
        connection.sent = None
        self.num_waiting -= 1
        if reply.is_last:
            self._close(connection)
        else:
            self.idle.append(connection)

    def _fail(self, connection: Connection, error: RequestError, results: Results) -> None:
        """Closes a connection. If it has a request in progress, the request counts as failed."""
        if connection.sent is None:
            self.idle.remove(connection)
        else:
            results.record_failure(connection.sent, error)
            self.num_waiting -= 1
        self._close(connection)

    def _time_out(self, results: Results) -> None:
        """Fails the requests that are still in progress."""
        for key in [*self.selector.get_map().values()]:
            if key.data.sent is not None:
                error = RequestError("timeout", f"no reply in {self.timeout_seconds:g} s")
                self._fail(key.data, error, results)

    def _close(self, connection: Connection) -> None:
        self.selector.unregister(connection.socket)
        connection.socket.close()
