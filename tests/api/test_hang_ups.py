"""Clients that hang up at random moments leave nothing behind.

The environment variable HANG_UPS sets the number of clients, such as 1000.
"""

import contextlib
import json
import os
import random
import resource
import socket
import struct
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from service.ipc.processes import Process
from tests.api.conftest import ServeLive, ServeTcp
from tests.api.loading import starter
from tests.api.servers import SocketServer, assert_idle, translation
from tests.api.test_disconnect import head
from tests.workers import Script, until

HANG_UPS = int(os.environ.get("HANG_UPS", "24"))
AT_ONCE = 32
MOMENTS = ("head", "body", "sent", "reply")
MAX_GROWTH_BYTES = 64 * 2**20
RESET = struct.pack("ii", 1, 0)
"""Value of SO_LINGER with which a socket is closed by a reset, as by a client that crashes."""


def hang_up(server: SocketServer, seed: int) -> str:
    """Sends a request up to a random moment, waits for a random time, and closes the socket."""
    generator = random.Random(seed)
    moment = generator.choice(MOMENTS)
    texts = [f"Sentence {seed}, {number}." for number in range(generator.choice((1, 4, 200)))]
    body = json.dumps(translation(texts)).encode()
    request = head(len(body)) + body
    cut = {"head": generator.randint(1, 40), "body": len(request) - generator.randint(1, len(body))}
    with contextlib.suppress(OSError), server.connect() as connection:
        if generator.random() < 0.5:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
        connection.sendall(request[: cut.get(moment, len(request))])
        if moment == "reply":
            connection.settimeout(0.5)
            connection.recv(generator.randint(1, 2000))
        time.sleep(generator.random() * 0.05)
    return moment


def resident_bytes(pids: list[int]) -> int:
    pages = [int(Path(f"/proc/{pid}/statm").read_text("ascii").split()[1]) for pid in pids]
    return sum(pages) * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.parametrize("num_steps", [1, 30])
def test_clients_that_hang_up_at_any_moment_leave_nothing_behind(
    num_steps: int, serve_tcp: ServeTcp, script: Script
) -> None:
    server = serve_tcp(max_rows=4, max_beam_size=4, bulk_sentences=2)
    script.num_steps = num_steps
    pids = [os.getpid(), *getattr(server, "pids", [])]

    def run(first: int) -> Counter[str]:
        with ThreadPoolExecutor(AT_ONCE) as pool:
            seeds = range(first, first + HANG_UPS)
            return Counter(pool.map(lambda seed: hang_up(server, seed), seeds))

    run(0)
    assert_idle(server)
    before = resident_bytes(pids)
    moments = run(HANG_UPS)
    assert_idle(server)
    assert set(moments) == set(MOMENTS)
    assert resident_bytes(pids) - before < MAX_GROWTH_BYTES
    assert server.translate("Next.").status_code == 200


def test_worker_that_is_killed_beside_1500_connections_comes_back(serve_live: ServeLive) -> None:
    """The new worker inherits a descriptor above 1,023, for which `select` fails."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if 0 <= hard < 4096:
        pytest.skip("needs 4,096 descriptors")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 4096), hard))
    server = serve_live()
    workers = starter(server)
    with contextlib.ExitStack() as opened:

        async def start(connection: socket.socket, threads: int) -> Process:
            """Starts a worker when the descriptors that the dead one has freed are in use."""
            while opened.enter_context(open(os.devnull, "rb")).fileno() < 1024:
                pass
            return await workers(connection, threads)

        server.core.supervisor.start_worker = start
        for _ in range(1500):
            opened.enter_context(server.connect())
        workers.started[0].kill()
        until(lambda: len(workers.started) == 2)
        until(lambda: server.core.supervisor.is_ready)
        assert workers.started[1].connection.fileno() > 1023
        reply = server.translate("Hello.")
        assert reply.json() == {"translatedText": "Hello."}
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
