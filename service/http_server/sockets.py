"""Reads facts about a socket from the kernel."""

import fcntl
import socket
import sys
import termios

TCP_CLOSE = 7
"""State of a closed connection, as TCP_INFO reports it.

Source: include/net/tcp_states.h of Linux.
"""


def is_closed(connection: socket.socket) -> bool:
    """Returns whether the connection is closed on both sides, as after a reset by the peer."""
    return connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1)[0] == TCP_CLOSE


def kernel_unsent(connection: socket.socket) -> int:
    """Returns the number of bytes that the kernel keeps until the client has received them."""
    found = fcntl.ioctl(connection.fileno(), termios.TIOCOUTQ, bytes(4))
    return int.from_bytes(found, sys.byteorder)
