"""The memory of a request body while the body arrives."""

from mmap import mmap

SMALL_BYTES = 16 * 1024
"""Largest size of a body that reserves no bytes in the budget of the HTTP process.

The budget (`service.http_server.byte_budget`) limits the bytes that all connections buffer.
The number of connections bounds the memory of small bodies, so they need no reservation. The server
can thus read single sentences while large bodies use the whole budget.
"""


class BodyBuffer:
    """Collects the bytes of one body.

    A large body has memory pages of its own. The pages take memory only as bytes arrive. The
    operating system gets the pages back when the body ends. A growing `bytearray` would take up to
    twice the memory. Its data would move at each growth, and leave gaps in memory that bodies of
    other sizes cannot use.

    Attributes:
        size: Number of bytes that have arrived.
    """

    def __init__(self) -> None:
        self.size = 0
        self.memory: bytearray | mmap = bytearray()

    def reserve(self, capacity: int) -> None:
        """Makes room for `capacity` bytes in total."""
        if capacity <= len(self.memory):
            return
        before = self.memory
        self.memory = bytearray(capacity) if capacity <= SMALL_BYTES else mmap(-1, capacity)
        self.memory[: self.size] = before[: self.size]

    def add(self, data: bytes) -> None:
        """Adds bytes at the end."""
        end = self.size + len(data)
        if end > len(self.memory):
            self.reserve(2 * end)
        self.memory[self.size : end] = data
        self.size = end

    def take(self) -> bytes:
        """Returns all bytes, and frees the memory."""
        data = bytes(self.memory[: self.size])
        self.memory = bytearray()
        self.size = 0
        return data
