"""Ports for servers of tests that cannot choose one themselves.

The kernel takes the ports of outgoing connections, and of servers that ask for any port, from a
range of its own. A port of that range, once probed and closed, can be taken before the server of
the test listens. These ports lie below the range, and each test process has its own share.
"""

import os
import random
import socket
from contextlib import ExitStack

FIRST, NUM_PORTS = 21_000, 600
"""The first port of the first test process, and the number of ports of each."""


def free_ports(count: int) -> list[int]:
    """Returns ports of 127.0.0.1 on which nothing listens."""
    process = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")) % 16
    first = FIRST + process * NUM_PORTS
    candidates = random.sample(range(first, first + NUM_PORTS), NUM_PORTS)
    with ExitStack() as opened:
        found: list[int] = []
        for port in candidates:
            try:
                opened.enter_context(socket.create_server(("127.0.0.1", port)))
            except OSError:
                continue
            found.append(port)
            if len(found) == count:
                return found
    raise OSError(f"fewer than {count} of {NUM_PORTS} ports from {first} on are free")
