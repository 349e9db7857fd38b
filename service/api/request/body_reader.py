"""Reads the bytes of one body within limits of size and time."""

import asyncio

from starlette.requests import ClientDisconnect, Request

from service.api.request.body_buffer import SMALL_BYTES, BodyBuffer
from service.errors import (
    DeadlineExceededError,
    OverloadedError,
    RequestTooLargeError,
    ServiceError,
)
from service.http_server.byte_budget import (
    LEAST_RATE,
    RETRY_SECONDS,
    STALLED_SECONDS,
    Reservation,
)
from service.http_server.request_connection import connection_of

RESERVATION_KEY = "body_bytes"
"""Key of the body's reservation in the `state` of the ASGI scope."""


class BodyReader:
    """Reads one body within limits of size and time.

    Args:
        request: The request.
        max_bytes: Largest size of the body.
        seconds: Time limit for the whole body, in seconds.
        is_keyless: Whether the body counts against the share of bodies without a key.

    Attributes:
        buffer: The bytes that have arrived.
        reservation: The bytes reserved in the budget of the HTTP process; None for a small body.
        marked: Number of bytes that had arrived at the last call of `mark_progress`.
        failure: Error that has interrupted the reading, or None.
    """

    def __init__(self, request: Request, max_bytes: int, seconds: float, is_keyless: bool) -> None:
        task = asyncio.current_task()
        assert task is not None
        self.task = task
        self.request = request
        self.max_bytes = max_bytes
        self.seconds = seconds
        self.is_keyless = is_keyless
        self.buffer = BodyBuffer()
        self.reservation: Reservation | None = None
        self.marked = 0
        self.failure: ServiceError | None = None

    async def read(self, declared: int) -> bytes:
        """Returns the whole body.

        Args:
            declared: Content-Length of the request; 0 if it has none.

        Raises:
            RequestTooLargeError: The body is over the limit.
            OverloadedError: The budget has no room for the body, or the body arrives slowly while
                another transfer needs the memory.
            DeadlineExceededError: The body did not arrive in time.
            ClientDisconnect: The client closed the connection.
        """
        # This timer does the same as asyncio.timeout, but is faster.
        timer = asyncio.get_running_loop().call_later(self.seconds, self._expire)
        is_whole = False
        try:
            if declared > SMALL_BYTES:
                self._reserve(declared)
            await self._receive()
            is_whole = True
            return self.buffer.take()
        except asyncio.CancelledError:
            # If `uncancel` returns 0, only `_interrupt` has cancelled the task.
            if self.failure is not None and self.task.uncancel() == 0:
                raise self.failure from None
            raise
        finally:
            timer.cancel()
            # The traceback of an error refers to this reader, so the error is let go as well.
            self.failure = None
            self.buffer = BodyBuffer()
            # This reader and its reservation refer to each other. The assignment breaks this cycle,
            # so both are freed at once and do not wait for the garbage collector.
            reservation, self.reservation = self.reservation, None
            if reservation is not None:
                if is_whole:
                    reservation.settle()
                else:
                    reservation.release()

    async def _receive(self) -> None:
        receive, buffer = self.request.receive, self.buffer
        while (message := await receive())["type"] != "http.disconnect":
            buffer.add(message.get("body", b""))
            if buffer.size > self.max_bytes:
                raise too_large(buffer.size, self.max_bytes)
            if not message.get("more_body", False):
                return
            if buffer.size > SMALL_BYTES:
                self._count()
        raise ClientDisconnect

    def _count(self) -> None:
        """Reserves more bytes if the body exceeds its reservation, and marks progress."""
        size = self.buffer.size
        if self.reservation is None or size > self.reservation.size:
            self._reserve(min(2 * size, self.max_bytes))
        if self.reservation is not None:
            # The reserved bytes need a certain average rate to arrive within the time limit.
            # Bytes that arrive more slowly do not count as progress.
            rate = max(LEAST_RATE, self.reservation.size / self.seconds)
            if size - self.marked >= rate * STALLED_SECONDS:
                self.marked = size
                self.reservation.mark_progress()

    def _reserve(self, size: int) -> None:
        connection = connection_of(self.request.scope)
        if self.reservation is not None:
            self.reservation.grow(size)
        elif connection is not None:
            pool = connection.pool
            budget = pool.keyless if self.is_keyless else pool.budget
            self.reservation = budget.reserve(size, self._give_up)
            self.request.scope["state"][RESERVATION_KEY] = self.reservation
        self.buffer.reserve(size)

    def _expire(self) -> None:
        self._interrupt(too_slow(self.buffer.size, self.seconds))

    def _give_up(self) -> None:
        self._interrupt(stalled(self.buffer.size))

    def _interrupt(self, failure: ServiceError) -> None:
        if self.failure is None:
            self.failure = failure
            self.task.cancel()


def stalled(size: int) -> OverloadedError:
    """Returns the error for a body that arrives slowly while another transfer needs the memory."""
    return OverloadedError(
        f"only {size} bytes of the body have arrived, and the server needs the memory for others; "
        f"send the body faster than {LEAST_RATE} bytes/s, send it in parts of up to {SMALL_BYTES} "
        "bytes, or try again later",
        RETRY_SECONDS,
        "bytes",
    )


def too_slow(size: int, seconds: float) -> DeadlineExceededError:
    """Returns the error for a body that arrived too slowly: `size` bytes in `seconds`."""
    return DeadlineExceededError(
        f"only {size} bytes of the body arrived within {seconds:g} s; "
        "send a smaller body, or try again"
    )


def too_large(size: int, limit: int) -> RequestTooLargeError:
    """Returns the error for a body over the limit."""
    return RequestTooLargeError(
        f"the body has {size} bytes or more; the limit is {limit}. "
        "Send it in parts, or raise REGARD_MAX_BODY_BYTES."
    )
