"""Limits the bytes that an HTTP process buffers for all of its connections.

The limit covers the bodies of requests, and the replies that clients have not read yet. A small
body does not count, because the number of connections bounds the memory of small bodies.
"""

import time
from collections.abc import Callable

from service.errors import OverloadedError

STALLED_SECONDS = 2.0
"""A transfer without progress for this time is ended if another transfer needs its bytes."""

RETRY_SECONDS = 2
"""Time after which a refused client may try again.

A transfer that makes no progress after the refusal counts as stalled by then.
"""


class ByteBudget:
    """Counts the bytes that are reserved for bodies and unread replies.

    Args:
        max_bytes: Largest number of reserved bytes.

    Attributes:
        used: Number of reserved bytes.
        transfers: Maps the reservation of each transfer in progress, a body or a reply, to the
            time of its last progress. The order is by this time, earliest first.
    """

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self.used = 0
        self.transfers: dict[Reservation, float] = {}

    def reserve(self, size: int, give_up: Callable[[], None]) -> "Reservation":
        """Reserves bytes. If they do not fit, stalled transfers are given up first.

        Args:
            size: Number of bytes.
            give_up: Ends the transfer. The budget calls this function if the transfer has stalled
                and another transfer needs the bytes.

        Raises:
            OverloadedError: The bytes do not fit, even without the stalled transfers.
        """
        reservation = Reservation(self, give_up)
        reservation.grow(size)
        reservation.mark_progress()
        return reservation

    def make_room(self, size: int) -> bool:
        """Gives up stalled transfers until `size` more bytes fit. Returns whether the bytes fit.

        Any number of bytes fits into an empty budget.
        """
        latest = time.monotonic() - STALLED_SECONDS
        while self.used and self.used + size > self.max_bytes:
            first = next(iter(self.transfers), None)
            if first is None or self.transfers[first] > latest:
                return False
            first.release()
            first.give_up()
        return True


class Reservation:
    """The bytes that one body or one reply has reserved.

    Args:
        budget: Budget of the bytes.
        give_up: Ends the transfer.

    Attributes:
        size: Number of reserved bytes.
    """

    __slots__ = ("budget", "give_up", "size")

    def __init__(self, budget: ByteBudget, give_up: Callable[[], None]) -> None:
        self.budget = budget
        self.give_up = give_up
        self.size = 0

    def grow(self, size: int) -> None:
        """Reserves more bytes, so that `size` bytes are reserved in total.

        Raises:
            OverloadedError: The bytes do not fit.
        """
        budget, missing = self.budget, size - self.size
        if not budget.make_room(missing):
            raise OverloadedError(
                f"{budget.used} bytes of bodies and replies are buffered, and {missing} more "
                f"exceed the limit of {budget.max_bytes}; try again later, or raise "
                "REGARD_MAX_BUFFERED_BYTES",
                RETRY_SECONDS,
                "bytes",
            )
        self.resize(size)

    def resize(self, size: int) -> None:
        """Changes the number of reserved bytes, even if they do not fit."""
        self.budget.used += size - self.size
        self.size = size

    def mark_progress(self) -> None:
        """Records that the transfer makes progress now."""
        self.budget.transfers.pop(self, None)
        self.budget.transfers[self] = time.monotonic()

    def settle(self) -> None:
        """Records that the transfer is complete. No other transfer can take its bytes."""
        self.budget.transfers.pop(self, None)

    def release(self) -> None:
        """Returns all bytes to the budget."""
        self.settle()
        self.resize(0)
