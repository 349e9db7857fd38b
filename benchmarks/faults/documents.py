"""Attacks the reading of documents in a server with 2 GiB of memory, beside single sentences.

    python -m benchmarks.faults.documents
    python -m benchmarks.faults.documents --server-root ../base --only zeros,elements
    python -m benchmarks.faults.documents --only mutations --mutations 500

Needs the rights of root, for a memory group (cgroup v1 or v2). One client sends a sentence every
100 ms. Beside it, the files of a group are sent for at most `--seconds`; mutations are always sent
to their end. Then the server has 10 s to give its memory back. A server that ends is started again
for the next group. Its settings are the defaults, except for REGARD_FILES, two workers, and limits
of 32 MB and 30 s for a document.

In the table, memory is in MiB without the pages of files. `kills` counts processes that the kernel
killed because of the limit. `back s` is the time until the memory was given back.
"""

import argparse
import asyncio
import http.client
import itertools
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from benchmarks.environments import ROOT
from benchmarks.faults import files
from benchmarks.faults.files import FORMATS, PARTS_OF, File
from benchmarks.faults.server import Measured, Server, quantile, run, temporary_folder
from benchmarks.processes import HOST

SETTINGS = {
    "REGARD_FILES": "true",
    "REGARD_MAX_FILE_BYTES": "32000000",
    "REGARD_FILE_TIMEOUT_SECONDS": "30",
    "REGARD_FILE_RETENTION_SECONDS": "1",  # kept translations must not fill their room
    "REGARD_WORKERS": "2",
}
PAUSE_SECONDS = 0.1
SHORTEST_SECONDS = 2.0
"""Shortest time in which the other requests are measured."""

SETTLE_SECONDS = 10.0
SETTLED_MIB = 64.0
"""Memory above that before an attack that counts as given back."""

UPLOAD_SECONDS = 40.0
TEXT_FORMATS = tuple(kind for kind in FORMATS if kind not in PARTS_OF)
BOUNDARY = "faults"
HEADINGS = ("group", "files", "seconds", "main", "kills", "peak", "before", "after", "back s")
LATENCIES = ("p50", "p99", "x alone", "failed")


@dataclass(frozen=True)
class Group:
    """Files that are sent together."""

    name: str  # name in the table
    files: Callable[[], Iterable[File]]  # returns the files
    at_once: int = 1  # number of files that are sent at the same time
    is_whole: bool = False  # whether all files are sent, however long it takes


def groups(num_mutations: int) -> Iterator[Group]:
    """Yields all groups: bombs, long texts of one mark, and mutations."""
    yield Group("zeros", files.zeros)
    for kind in PARTS_OF:
        yield Group(f"elements {kind}", partial(files.bombs, kind))
    yield Group("eight at once", two_of_each, at_once=8)
    for kind in (*TEXT_FORMATS, "csv"):
        yield Group(f"marks {kind}", partial(files.marks, kind))
    for kind in FORMATS:
        make = partial(files.mutations, kind, num_mutations)
        yield Group(f"mutations {kind}", make, at_once=2, is_whole=True)


def two_of_each() -> Iterator[File]:
    for kind in PARTS_OF:
        yield from itertools.islice(files.bombs(kind), 2)


def upload(port: int, file: File) -> str:
    """Sends a document, and returns the status of the reply; `lost` or `late` without one."""
    name, content = file
    parts = [f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="{key}"\r\n\r\n{value}\r\n'
             for key, value in (("source", "en"), ("target", "pt"))]  # fmt: skip
    safe = name.replace("\\", "backslash").replace('"', "quote")
    head = f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="file"; filename="{safe}"\r\n\r\n'
    body = b"".join([*map(str.encode, parts), head.encode(), content])
    body += f"\r\n--{BOUNDARY}--\r\n".encode()
    headers = {"Content-Type": f"multipart/form-data; boundary={BOUNDARY}"}
    connection = http.client.HTTPConnection(HOST, port, timeout=UPLOAD_SECONDS)
    try:
        try:
            connection.request("POST", "/translate_file", body, headers)
        except (BrokenPipeError, ConnectionResetError):  # refused before its end
            pass
        return str(connection.getresponse().status)
    except TimeoutError:
        return "late"
    except (OSError, http.client.HTTPException):
        return "lost"
    finally:
        connection.close()


class Attack(Measured):
    """Sends groups of files to servers of one checkout, and prints a line for each group."""

    def __init__(self, root: Path, folder: Path, seconds: float) -> None:
        super().__init__(root, folder, PAUSE_SECONDS)
        self.seconds = seconds
        self.pool = ThreadPoolExecutor(8)

    async def run(self, chosen: Iterable[Group]) -> None:
        """Sends all groups."""
        try:
            for group in chosen:
                if not self.alone:
                    await self.start(SETTINGS)
                    self._show_alone()
                elif self.server is None or not self.server.is_alive:
                    await self.start(SETTINGS)
                await self._measure(group)
        finally:
            await self.stop()

    def _show_alone(self) -> None:
        p50, p99 = (quantile(self.alone, share) for share in (0.5, 0.99))
        print(f"alone: p50 {p50:.0f} ms, p99 {p99:.0f} ms\n")
        print(f"{HEADINGS[0]:16}" + "".join(f"{name:>9}" for name in HEADINGS[1:] + LATENCIES))

    async def _measure(self, group: Group) -> None:
        server, others = self.running()
        found = await asyncio.to_thread(lambda: [*group.files()])
        before, kills = server.group.used_mib(), server.group.num_kills()
        watch = asyncio.create_task(self._watch(server))
        begin = time.perf_counter()
        statuses = await self._send(server, group, found)
        end = time.perf_counter()
        await asyncio.sleep(begin + SHORTEST_SECONDS - end)
        if statuses["lost"]:
            await asyncio.sleep(SHORTEST_SECONDS)  # a killed process takes some time to end
        peak = await self._end(watch)
        after, back = await self._settle(server, before)
        latencies, failed = others.between(begin, max(end, begin + SHORTEST_SECONDS))
        row = [f"{sum(statuses.values())}/{len(found)}", f"{end - begin:.1f}"]
        row += ["alive" if server.is_alive else "DIED", str(server.group.num_kills() - kills)]
        row += [f"{peak:.0f}", f"{before:.0f}", f"{after:.0f}", back]
        p50, p99 = (quantile(latencies, share) for share in (0.5, 0.99))
        row += [f"{p50:.0f}", f"{p99:.0f}", f"{p99 / quantile(self.alone, 0.99):.1f}", str(failed)]
        replies = " ".join(f"{status}:{number}" for status, number in sorted(statuses.items()))
        print(f"{group.name:16}" + "".join(f"{cell:>9}" for cell in row) + f"  {replies}")

    async def _send(self, server: Server, group: Group, found: list[File]) -> Counter[str]:
        """Sends files until the time is over or the server has ended, and counts the replies."""
        statuses: Counter[str] = Counter()
        end = time.perf_counter() + self.seconds
        waiting = iter(found)

        async def client() -> None:
            loop = asyncio.get_running_loop()
            for file in waiting:
                statuses[await loop.run_in_executor(self.pool, upload, server.port, file)] += 1
                is_late = time.perf_counter() > end and not group.is_whole
                if is_late or not server.is_alive:
                    return

        await asyncio.gather(*(client() for _ in range(group.at_once)))
        return statuses

    async def _watch(self, server: Server) -> float:
        peak = 0.0
        try:
            while True:
                peak = max(peak, server.group.used_mib())
                await asyncio.sleep(0.02)
        except asyncio.CancelledError:
            return peak

    async def _end(self, watch: asyncio.Task[float]) -> float:
        watch.cancel()
        return await watch

    async def _settle(self, server: Server, before: float) -> tuple[float, str]:
        begin = time.perf_counter()
        while (after := server.group.used_mib()) > before + SETTLED_MIB and server.is_alive:
            if (seconds := time.perf_counter() - begin) > SETTLE_SECONDS:
                return after, f">{seconds:.0f}"
            await asyncio.sleep(0.1)
        return after, f"{time.perf_counter() - begin:.1f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--server-root", type=Path, default=ROOT, help="checkout of the server")
    parser.add_argument("--mutations", type=int, default=20, help="mutations of each format")
    parser.add_argument("--only", default="", help="beginnings of groups' names, with commas")
    parser.add_argument("--seconds", type=float, default=20.0, help="longest time of a group")
    options = parser.parse_args()
    names = tuple(options.only.split(","))
    chosen = [each for each in groups(options.mutations) if each.name.startswith(names)]
    began = time.perf_counter()
    with temporary_folder() as folder:
        run(Attack(options.server_root.resolve(), folder, options.seconds).run(chosen))
        left = [path.name for path in folder.iterdir() if path.name != "server.log"]
    print(
        f"\n{time.perf_counter() - began:.0f} s; left in the temporary folder: {left or 'nothing'}"
    )


if __name__ == "__main__":
    main()
