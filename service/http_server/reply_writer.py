"""Writes the replies of a connection, and counts the bytes that the client has not read."""

import asyncio
import fcntl
import socket
import sys
import termios

from service.http_server.byte_budget import ByteBudget, Reservation


class ReplyWriter(asyncio.Transport):
    """Writes replies to a transport. uvicorn uses the writer in place of the transport.

    uvicorn writes headers and body separately. The client would wake up for the headers alone, and
    each write is a system call. This class keeps the first write of a reply until the second one,
    or until the event loop runs other callbacks.

    Attributes:
        is_begun: Whether a part of the reply has been written. False begins the next reply.
    """

    __slots__ = ("first", "flushing", "is_begun", "loop", "transport")

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self.transport = transport
        self.loop = loop
        self.first = b""
        self.is_begun = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if not self.is_begun:
            self.is_begun = True
            self.first = bytes(data)
            self.flushing = self.loop.call_soon(self.flush)
        elif self.first:
            first, self.first = self.first, b""
            self.flushing.cancel()
            self.transport.writelines((first, data))
        else:
            self.transport.write(data)

    def flush(self) -> None:
        if self.first:
            first, self.first = self.first, b""
            self.transport.write(first)

    def is_closing(self) -> bool:
        return self.transport.is_closing()

    def close(self) -> None:
        """Closes the connection when all parts are written."""
        self.flush()
        self.transport.close()


class UnreadReply:
    """The bytes of a connection's replies that the client has not read.

    Attributes:
        held: Size in bytes of the values that a reply is made from, such as arrays.
        unsent: Number of bytes in the write buffer and in the kernel that the client had not
            received at the last check. It is 0 if the write buffer was empty.
        reservation: Reservation of the bytes in `held` and in the write buffer.
        stalled_since: Time since which the client has read nothing; None if no bytes wait.
    """

    __slots__ = ("budget", "held", "reservation", "stalled_since", "transport", "unsent")

    def __init__(self, transport: asyncio.Transport, budget: ByteBudget) -> None:
        self.transport = transport
        self.budget = budget
        self.held = 0
        self.unsent = 0
        self.reservation: Reservation | None = None
        self.stalled_since: float | None = None

    def hold(self, num_bytes: int) -> None:
        """Reserves bytes for the values of a reply, such as arrays. `let_go` releases them.

        If the bytes do not fit, stalled transfers are given up. The bytes are reserved in any case.
        """
        self.held += num_bytes
        self.budget.make_room(num_bytes)
        reservation = self._reserved()
        reservation.resize(reservation.size + num_bytes)

    def let_go(self, num_bytes: int) -> None:
        if self.reservation is not None and self.held:
            self.held -= num_bytes
            self.reservation.resize(self.reservation.size - num_bytes)

    def pause(self) -> None:
        """Reserves the bytes of the write buffer, which the client does not read fast enough."""
        reservation = self._reserved()
        reservation.resize(self.held + self.transport.get_write_buffer_size())
        reservation.mark_progress()
        self.budget.make_room(0)

    def resume(self) -> None:
        """Releases the bytes of the write buffer."""
        if self.reservation is not None:
            self.reservation.settle()
            self.reservation.resize(self.held)

    def end(self) -> None:
        self.held = 0
        self.resume()

    def has_stalled(self, now: float, limit_seconds: float, is_paused: bool) -> bool:
        """Returns whether the client has read nothing of a reply for more than `limit_seconds`.

        Args:
            is_paused: Whether the reply waits until the client has read a part.
        """
        waiting = unsent = self.transport.get_write_buffer_size()
        if waiting:
            unsent += kernel_unsent(self.transport.get_extra_info("socket"))
        if unsent and unsent == self.unsent and self.stalled_since is not None:
            return now - self.stalled_since > limit_seconds
        self.unsent = unsent
        self.stalled_since = now if unsent else None
        if self.reservation is not None and is_paused:
            self.reservation.resize(self.held + waiting)
            self.reservation.mark_progress()
        return False

    def _reserved(self) -> Reservation:
        if self.reservation is None:
            self.reservation = Reservation(self.budget, self.transport.abort)
        return self.reservation


def kernel_unsent(connection: socket.socket) -> int:
    """Returns the number of bytes that the kernel keeps until the client has received them."""
    found = fcntl.ioctl(connection.fileno(), termios.TIOCOUTQ, bytes(4))
    return int.from_bytes(found, sys.byteorder)
