"""Messages over a socket pair between two processes that trust each other.

A message is sent as its length (u64, little-endian) followed by its pickle. The child process
inherits one socket of the pair. The pair has no name, so no other process can write to it.
"""

import asyncio
import copyreg
import logging
import pickle
import select
import socket
import struct
from collections.abc import Callable
from dataclasses import dataclass, field, fields
from operator import attrgetter
from typing import Any, TypeVar

from service.errors import fault

M = TypeVar("M")
logger = logging.getLogger("regard.channel")

LENGTH = struct.Struct("<Q")
LINGER_SECONDS = 0.005
"""Longest time that a message of `Outbox.post` waits, to be sent together with later messages."""


def pack(message: object) -> bytes:
    body = pickle.dumps(message, protocol=pickle.HIGHEST_PROTOCOL)
    return LENGTH.pack(len(body)) + body


def pickle_by_fields(cls: type) -> None:
    """Registers a pickle reducer that rebuilds an instance of a dataclass from its field values.

    For the results of 32 sentences, Python's reducer takes 114 µs, and this one takes 33 µs.
    """
    get = attrgetter(*(each.name for each in fields(cls)))
    if len(fields(cls)) == 1:  # `attrgetter` then returns no tuple
        copyreg.pickle(cls, lambda value: (cls, (get(value),)))
    else:
        copyreg.pickle(cls, lambda value: (cls, get(value)))


class Inbox(asyncio.Protocol):
    """The messages that an event loop receives. `closed` is done when the connection is closed."""

    def __init__(self) -> None:
        self.received = bytearray()
        self.receive: Callable[[Any], None] | None = None
        self.closed = asyncio.get_running_loop().create_future()

    async def pass_to(self, receive: Callable[[Any], None]) -> None:
        """Passes all messages to a function, until the connection is closed or the function fails.

        An error of the function is raised.
        """
        self.receive = receive
        self._pass_all()  # messages may have come already, and the end too
        await asyncio.wait([self.closed])
        self.closed.result()

    def data_received(self, data: bytes) -> None:
        self.received += data
        if not self.closed.done():
            self._pass_all()

    def _pass_all(self) -> None:
        if self.receive is None:
            return
        start = 0
        try:
            while len(self.received) >= (body := start + LENGTH.size):
                end = body + LENGTH.unpack_from(self.received, start)[0]
                if len(self.received) < end:
                    break
                message = pickle.loads(self.received[body:end])
                start = end
                self.receive(message)
        except Exception as error:
            if self.closed.done():
                raise
            self.closed.set_exception(error)
        del self.received[:start]

    def connection_lost(self, _: Exception | None) -> None:
        if not self.closed.done():
            self.closed.set_result(None)


def deliver(message: M, receive: Callable[[M], None], sender: str) -> None:
    """Passes a message to its receiver; an error is logged and does not end the channel."""
    try:
        receive(message)
    except Exception as error:
        kind = type(message).__name__
        logger.error("a message of %s was not handled (%s): %s", sender, kind, fault(error))


@dataclass(eq=False)
class Outbox:
    writer: asyncio.WriteTransport
    messages: list[object] = field(default_factory=list)
    due: asyncio.Handle | None = None
    is_urgent: bool = False

    def send(self, message: object) -> None:
        """Sends a message in the next iteration of the event loop, after all earlier messages."""
        self.messages.append(message)
        if not self.is_urgent:
            self.is_urgent = True
            self._flush_by(asyncio.get_running_loop().call_soon(self.flush))

    def post(self, message: object) -> None:
        """Sends a message with the next message of `send`, or after LINGER_SECONDS."""
        self.messages.append(message)
        if self.due is None:
            self._flush_by(asyncio.get_running_loop().call_later(LINGER_SECONDS, self.flush))

    def flush(self) -> None:
        self._flush_by(None)
        self.is_urgent = False
        messages, self.messages = self.messages, []
        if messages and not self.writer.is_closing():
            self.writer.write(pack(messages))

    def _flush_by(self, handle: asyncio.Handle | None) -> None:
        if self.due is not None:
            self.due.cancel()
        self.due = handle


class Channel:
    """The child's end of a channel: sends and receives messages over a blocking socket.

    The class uses `poll`, because `select` fails for descriptors of 1,024 and above. A child that
    is started while the server holds many connections may inherit such a descriptor.
    """

    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection
        self.arrivals = select.poll()
        self.arrivals.register(connection, select.POLLIN)

    def send(self, message: object) -> None:
        self.connection.sendall(pack(message))

    def has_message(self) -> bool:
        return bool(self.arrivals.poll(0))

    def wait(self, *others: int) -> None:
        arrivals = select.poll()
        for descriptor in (self.connection.fileno(), *others):
            arrivals.register(descriptor, select.POLLIN)
        arrivals.poll()

    def receive(self) -> Any:
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
