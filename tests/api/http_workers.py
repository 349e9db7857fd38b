"""HTTP workers of tests: forked from a process that has loaded the server's modules and data.

A fork takes some milliseconds. A new interpreter takes three seconds to load them.
"""

import asyncio
import multiprocessing
import os
import socket
from collections.abc import Sequence
from functools import lru_cache
from multiprocessing.context import ForkServerProcess

from model.checkpoints.load import ModelFiles, Vocabularies, load_vocabularies
from service.http_workers import http_worker
from service.models import served

FORKS = multiprocessing.get_context("forkserver")
FORKS.set_forkserver_preload(["tests.api.warm_up"])

_loaded = lru_cache(load_vocabularies)


def load_once(files: ModelFiles) -> Vocabularies:
    """Loads the vocabularies of each built-in model once. Loading takes 0.1 s."""
    is_built_in = "site-packages" in files.weights.parts
    return _loaded(files) if is_built_in else load_vocabularies(files)


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
    served.load_vocabularies = load_once  # type: ignore[attr-defined]
    http_worker.run(*sockets)
