"""Limits the bytes that an HTTP process buffers for all of its connections.

The limit covers the bodies of requests, and the replies that clients have not read yet.
"""

import asyncio
import fcntl
import sys
import termios
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from service.errors import OverloadedError

STALLED_SECONDS = 2.0
"""A transfer without progress for this time is ended if another transfer needs its bytes."""

LEAST_RATE = 32 * 1024  # bytes a second below which the arrival of a body is no progress

SMALL_BYTES = 16 * 1024
"""Largest size of a body that reserves no bytes; the number of connections bounds their memory."""

RESERVE_BYTES = 64 * 1024
"""Size of the bodies that may use the whole budget. Larger ones leave RESERVE_SHARE of it."""

RESERVE_SHARE = 8

KEYLESS_SHARE = 4
"""Share of the budget for bodies without an API key in a header, if the server has keys."""

RETRY_SECONDS = 2
"""Time after which a refused client may try again. Stalled transfers have ended by then."""


@dataclass(eq=False)
class ByteBudget:
    """Counts the bytes that are reserved for bodies and unread replies."""

    max_bytes: int
    whole: "ByteBudget | None" = None  # a budget that contains this one
    used: int = 0  # reserved bytes
    # Maps the reservation of each transfer in progress, a body or a reply, to the time of its last
    # progress. The order is by this time, earliest first.
    transfers: "dict[Reservation, float]" = field(default_factory=dict)

    def reserve(self, size: int, give_up: Callable[[], None]) -> "Reservation":
        """Reserves bytes for a transfer, which `give_up` ends after it has stalled."""
        reservation = Reservation(self, give_up)
        reservation.grow(size)
        reservation.mark_progress()
        return reservation

    def limit_for(self, size: int) -> int:
        return self.max_bytes - (self.max_bytes // RESERVE_SHARE if size > RESERVE_BYTES else 0)

    def make_room(self, size: int, own: int = 0) -> bool:
        """Gives up stalled transfers until `size` more bytes fit. Returns whether the bytes fit.

        Any number of bytes fits if only this transfer has reserved bytes: `own` bytes.
        """
        latest = time.monotonic() - STALLED_SECONDS
        limit = self.limit_for(size + own)
        while self.used > own and self.used + size > limit:
            first = next(iter(self.transfers), None)
            if first is None or self.transfers[first] > latest:
                return False
            first.release()
            first.give_up()
        return True


class Reservation:
    __slots__ = ("budgets", "give_up", "size")

    def __init__(self, budget: ByteBudget, give_up: Callable[[], None]) -> None:
        self.budgets = (budget,) if budget.whole is None else (budget, budget.whole)
        self.give_up = give_up
        self.size = 0

    def grow(self, size: int) -> None:
        missing = size - self.size
        for budget in self.budgets:
            if not budget.make_room(missing, self.size):
                raise too_many_bytes(budget, size, missing)
        self.resize(size)

    def resize(self, size: int) -> None:
        """Changes the number of reserved bytes, even if they do not fit."""
        for budget in self.budgets:
            budget.used += size - self.size
        self.size = size

    def mark_progress(self) -> None:
        self.settle()
        for budget in self.budgets:
            budget.transfers[self] = time.monotonic()

    def settle(self) -> None:
        """Records that the transfer is complete. No other transfer can take its bytes."""
        for budget in self.budgets:
            budget.transfers.pop(self, None)

    def release(self) -> None:
        self.settle()
        self.resize(0)


@dataclass(slots=True, eq=False)
class UnreadReply:
    """The bytes of a connection's replies that the client has not read."""

    transport: asyncio.Transport
    budget: ByteBudget
    held: int = 0  # bytes of the values that a reply is made from, such as arrays
    # Bytes in the write buffer and in the kernel that the client had not received at the last
    # check. It is 0 if the write buffer was empty.
    unsent: int = 0
    reservation: Reservation | None = None
    stalled_since: float | None = None  # start of the time without a read; None if no bytes wait

    def hold(self, num_bytes: int) -> None:
        self.held += num_bytes
        self.budget.make_room(num_bytes)
        reservation = self._reserved()
        reservation.resize(reservation.size + num_bytes)

    def let_go(self, num_bytes: int) -> None:
        if self.reservation is not None and self.held:
            self.held -= num_bytes
            self.reservation.resize(self.reservation.size - num_bytes)

    def pause(self) -> None:
        reservation = self._reserved()
        reservation.resize(self.held + self.transport.get_write_buffer_size())
        reservation.mark_progress()
        self.budget.make_room(0)

    def resume(self) -> None:
        if self.reservation is not None:
            self.reservation.settle()
            self.reservation.resize(self.held)

    def end(self) -> None:
        self.held = 0
        self.resume()

    def has_stalled(self, now: float, limit_seconds: float, is_paused: bool) -> bool:
        """Returns whether the client has read nothing of a reply for more than `limit_seconds`."""
        waiting = unsent = self.transport.get_write_buffer_size()
        if waiting:  # and the bytes that the kernel keeps until the client has received them
            descriptor = self.transport.get_extra_info("socket").fileno()
            kept = fcntl.ioctl(descriptor, termios.TIOCOUTQ, bytes(4))
            unsent += int.from_bytes(kept, sys.byteorder)
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


def too_many_bytes(budget: ByteBudget, size: int, missing: int) -> OverloadedError:
    kind, remedy = "", "try again later"
    if budget.whole is not None:
        kind, remedy = " without a key in a header", "send the key in the header Authorization"
    return OverloadedError(
        f"{budget.used} bytes of bodies and replies{kind} are buffered, and {missing} more "
        f"exceed the limit of {budget.limit_for(size)}; {remedy}, or raise "
        "REGARD_MAX_BUFFERED_BYTES",
        RETRY_SECONDS,
        "bytes",
    )
