"""A server in a memory group of its own, and a client that measures single sentences."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Coroutine, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from benchmarks.bench.client import Address, Connection, RequestError
from benchmarks.environments import MissingError
from benchmarks.processes import HOST, free_ports, stop, until_ready

CGROUPS = Path("/sys/fs/cgroup")
STOP_SECONDS = 10.0
LIMIT_BYTES = 2 << 30
ALONE_SECONDS = 15.0
SAMPLE_SECONDS = 0.02
REPLY_SECONDS = 60.0
SENTENCE = {"q": "The cat sat on the mat.", "source": "en", "target": "pt"}


class MemoryGroup:
    """A control group with a memory limit, of version 1 or 2."""

    def __init__(self, limit_bytes: int) -> None:
        self.is_v1 = (CGROUPS / "memory").is_dir()
        root = CGROUPS / "memory" if self.is_v1 else CGROUPS
        self.path = root / f"regard-faults-{os.getpid()}-{time.monotonic_ns()}"
        try:
            if not self.is_v1:
                (root / "cgroup.subtree_control").write_text("+memory")
            self.path.mkdir()
            name = "limit_in_bytes" if self.is_v1 else "max"
            (self.path / f"memory.{name}").write_text(str(limit_bytes))
        except OSError as error:
            raise SystemExit(f"a memory group cannot be made: {error}; run as root") from None

    def used_mib(self) -> float:
        """Returns the memory without the pages of files, which the kernel can drop."""
        used = int(self._read("usage_in_bytes" if self.is_v1 else "current"))
        pages = dict(line.split() for line in self._read("stat").splitlines())
        prefix = "total_" if self.is_v1 else ""
        files = sum(int(pages[f"{prefix}{name}_file"]) for name in ("active", "inactive"))
        return (used - files) / 2**20

    def num_kills(self) -> int:
        lines = self._read("oom_control" if self.is_v1 else "events").splitlines()
        return int(dict(line.split() for line in lines)["oom_kill"])

    def remove(self) -> None:
        """Kills the processes that are left, and removes the group."""
        end = time.monotonic() + STOP_SECONDS
        while time.monotonic() < end:
            for pid in (self.path / "cgroup.procs").read_text().split():
                with suppress(ProcessLookupError):
                    os.kill(int(pid), signal.SIGKILL)
            with suppress(OSError):
                self.path.rmdir()
                return
            time.sleep(0.1)

    def _read(self, name: str) -> str:
        return (self.path / f"memory.{name}").read_text("ascii")


class Server:
    """A running server, in a memory group and with a temporary folder of its own."""

    def __init__(
        self, root: Path, limit_bytes: int, settings: Mapping[str, str], folder: Path
    ) -> None:
        self.group = MemoryGroup(limit_bytes)
        (self.port,) = free_ports(1)
        python = root / ".venv" / "bin" / "python"
        command = [str(python) if python.exists() else sys.executable, "-m", "service", "serve"]
        kept = {name: text for name, text in os.environ.items() if not name.startswith("REGARD_")}
        with (folder / "server.log").open("ab") as log:
            # The shell enters the group, and the server takes its place.
            self.process = subprocess.Popen(
                ["sh", "-c", 'echo $$ > "$0" && exec "$@"', str(self.group.path / "cgroup.procs")]
                + [*command, "--host", HOST, "--port", str(self.port)],
                cwd=root,
                env={**kept, **settings, "TMPDIR": str(folder)},
                stdout=log,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
                process_group=0,
            )
        try:
            until_ready(self.process, self.port)
        except MissingError as error:
            self.stop()
            raise SystemExit(str(error)) from None

    @property
    def is_alive(self) -> bool:
        return self.process.poll() is None

    def is_busy(self) -> bool:
        """Returns whether a thread of the main process runs, or waits for a core."""
        for task in Path(f"/proc/{self.process.pid}/task").glob("*/stat"):
            with suppress(OSError):  # the thread has ended
                if task.read_text("utf-8", errors="replace").rpartition(")")[2].split()[0] == "R":
                    return True
        return False

    def stop(self) -> None:
        """Ends the server and all its processes."""
        stop(self.process, STOP_SECONDS)
        self.group.remove()


def run(attack: Coroutine[Any, Any, None]) -> None:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    asyncio.run(attack)


@contextmanager
def temporary_folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="faults-", ignore_cleanup_errors=True) as name:
        yield Path(name)


class Others:
    """Other clients: they send a single sentence again and again, at fixed times.

    A slow reply does not delay the next request, so a stall of the server counts for all requests
    of its time. Requests without a reply count with the time that they have waited.
    """

    def __init__(self, port: int, pause_seconds: float) -> None:
        self.address = Address(HOST, port, "")
        self.pause_seconds = pause_seconds
        self.request = self.address.request("POST", "/translate", json.dumps(SENTENCE).encode())
        self.idle: list[Connection] = []
        self.sent: list[tuple[float, asyncio.Task[float | None]]] = []
        self.sending = asyncio.create_task(self._send())

    async def _send(self) -> None:
        start = time.perf_counter()
        for number in range(sys.maxsize):
            await asyncio.sleep(start + number * self.pause_seconds - time.perf_counter())
            began = time.perf_counter()
            self.sent.append((began, asyncio.create_task(self._one(began))))

    async def _one(self, began: float) -> float | None:
        try:
            connection = self.idle.pop() if self.idle else await Connection.open(self.address)
            reply = await connection.send(self.request)
        except RequestError:
            return None
        if not connection.is_closed:
            self.idle.append(connection)
        return 1000 * (time.perf_counter() - began) if reply.status == 200 else None

    def between(self, begin: float, end: float) -> tuple[list[float], int]:
        """Returns the milliseconds of the requests sent in a time, and the number of failures."""
        found = [(sent, task) for sent, task in self.sent if begin <= sent < end]
        now = time.perf_counter()
        results = [task.result() if task.done() else 1000 * (now - sent) for sent, task in found]
        answered = [each for each in results if each is not None]
        return answered, len(results) - len(answered)

    async def stop(self) -> None:
        """Stops sending, and gives up the open requests."""
        tasks = [self.sending, *(task for _, task in self.sent)]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for connection in self.idle:
            connection.close()


class Measured:
    """A server that is attacked beside other clients. The first server is measured alone."""

    def __init__(self, root: Path, folder: Path, pause_seconds: float) -> None:
        self.root = root
        self.folder = folder
        self.pause_seconds = pause_seconds
        self.server: Server | None = None
        self.others: Others | None = None
        self.alone: list[float] = []  # milliseconds of the other requests without an attack
        self.alone_share = 0.0  # share of the samples in which a thread of the main process ran

    async def start(self, settings: Mapping[str, str]) -> None:
        await self.stop()
        self.server = Server(self.root, LIMIT_BYTES, settings, self.folder)
        self.others = Others(self.server.port, self.pause_seconds)
        await asyncio.sleep(2.0)  # the first requests are slower
        if not self.alone:
            begin = time.perf_counter()
            samples: list[bool] = []
            while time.perf_counter() < begin + ALONE_SECONDS:
                await asyncio.sleep(SAMPLE_SECONDS)
                samples.append(self.server.is_busy())
            self.alone, _ = self.others.between(begin, time.perf_counter())
            self.alone_share = sum(samples) / len(samples)

    async def stop(self) -> None:
        if self.others is not None:
            await self.others.stop()
        if self.server is not None:
            self.server.stop()
        self.others = self.server = None

    def running(self) -> tuple[Server, Others]:
        assert self.server is not None
        assert self.others is not None
        return self.server, self.others


def quantile(values: list[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else float("nan")
