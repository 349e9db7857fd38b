"""Writes the headers of a reply together with the first part of its body."""

import asyncio


class ReplyWriter(asyncio.Transport):
    """Writes one reply to a transport. uvicorn uses the writer in place of the transport.

    uvicorn writes headers and body separately. The client would wake up for the headers alone, and
    each write is a system call. This class keeps the first write until the second one, or until the
    event loop runs other callbacks.

    Args:
        transport: Transport of the connection.
        loop: Event loop of the connection.
    """

    __slots__ = ("first", "is_begun", "loop", "transport")

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self.transport = transport
        self.loop = loop
        self.first = b""
        self.is_begun = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Writes a part of the reply."""
        if not self.is_begun:
            self.is_begun = True
            self.first = bytes(data)
            self.loop.call_soon(self.flush)
        elif self.first:
            first, self.first = self.first, b""
            self.transport.writelines((first, data))
        else:
            self.transport.write(data)

    def flush(self) -> None:
        """Writes the first part if it still waits."""
        if self.first:
            first, self.first = self.first, b""
            self.transport.write(first)

    def is_closing(self) -> bool:
        """Returns whether the connection is closed or being closed."""
        return self.transport.is_closing()

    def close(self) -> None:
        """Closes the connection when all parts are written."""
        self.flush()
        self.transport.close()
