"""Messages over a socket pair between two processes that trust each other.

Each message is its length (u64, little-endian) and its pickle. The socket is inherited by the
child and has no name, so nobody else can write to it.
"""

import asyncio
import pickle
import select
import socket
import struct
from typing import Any

LENGTH = struct.Struct("<Q")


def pack(message: object) -> bytes:
    """The bytes that stand for a message."""
    body = pickle.dumps(message, protocol=pickle.HIGHEST_PROTOCOL)
    return LENGTH.pack(len(body)) + body


async def read(reader: asyncio.StreamReader) -> Any:
    """The next message.

    Raises:
        asyncio.IncompleteReadError: The other side is gone.
        OSError: Likewise.
    """
    (length,) = LENGTH.unpack(await reader.readexactly(LENGTH.size))
    return pickle.loads(await reader.readexactly(length))


class Channel:
    """The blocking end, which the worker holds.

    Args:
        connection: A connected stream socket, in blocking mode.
    """

    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection

    def send(self, message: object) -> None:
        """Writes a whole message.

        Raises:
            OSError: The other side is gone.
        """
        self.connection.sendall(pack(message))

    def has_message(self) -> bool:
        """Whether something has arrived."""
        return bool(select.select([self.connection], [], [], 0)[0])

    def receive(self) -> Any:
        """The next message; waits for it.

        Raises:
            EOFError: The other side is gone.
        """
        (length,) = LENGTH.unpack(self._read(LENGTH.size))
        return pickle.loads(self._read(length))

    def _read(self, size: int) -> bytes:
        parts, missing = [], size
        while missing:
            part = self.connection.recv(min(missing, 1 << 20))
            if not part:
                raise EOFError("the server is gone")
            parts.append(part)
            missing -= len(part)
        return b"".join(parts)
