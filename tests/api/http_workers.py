"""HTTP workers of tests: forked from a process that has imported the modules of the server.

A fork takes some milliseconds. A new interpreter takes two seconds to import the modules.
"""

import asyncio
import multiprocessing
import os
import socket
from collections.abc import Sequence
from multiprocessing.context import ForkServerProcess

from service.http_workers import http_worker

FORKS = multiprocessing.get_context("forkserver")
FORKS.set_forkserver_preload([http_worker.__name__])


class ForkedProcess:
    """A process with the interface `service.ipc.processes.Process`."""

    def __init__(self, process: ForkServerProcess) -> None:
        assert process.pid is not None
        self.process = process
        self.pid = process.pid

    async def wait(self) -> int:
        loop = asyncio.get_running_loop()
        ended = asyncio.Event()
        loop.add_reader(self.process.sentinel, ended.set)
        try:
            await ended.wait()
        finally:
            loop.remove_reader(self.process.sentinel)
        self.process.join()
        assert self.process.exitcode is not None
        return self.process.exitcode

    def kill(self) -> None:
        self.process.kill()


async def fork_http_worker(sockets: Sequence[socket.socket]) -> ForkedProcess:
    """Forks an HTTP worker that has copies of the sockets."""
    process = FORKS.Process(target=_run, args=(dict(os.environ), *sockets), daemon=True)
    await asyncio.to_thread(process.start)
    return ForkedProcess(process)


def _run(environment: dict[str, str], *sockets: socket.socket) -> None:
    """Runs an HTTP worker in the environment of its test, not of the forking process."""
    os.environ.clear()
    os.environ.update(environment)
    http_worker.run(*sockets)
