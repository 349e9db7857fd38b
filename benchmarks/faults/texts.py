"""Attacks a server with texts that repeat a unit, beside single sentences.

    python -m benchmarks.faults.texts
    python -m benchmarks.faults.texts --server-root ../base --only 0,1,2 --formats html

Needs the rights of root, for a memory group. For each unit and format, eight clients send a text at
once and hang up after 0.5 s. Then eight clients send it with a time limit of 1 s. Another client
sends a sentence every 50 ms. `idle` is the time from the hang-up or the deadline until the threads
of the main process run as seldom as before. A server that is not idle after 10 s is started again.
All settings are the defaults.
"""

import argparse
import asyncio
import json
import math
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from html import escape
from pathlib import Path

from benchmarks.bench.client import Address, Connection, RequestError
from benchmarks.environments import ROOT
from benchmarks.faults.server import (
    SAMPLE_SECONDS,
    Measured,
    Server,
    quantile,
    run,
    temporary_folder,
)
from benchmarks.processes import HOST

HANG_UP_SECONDS = 0.5
DEADLINE_SECONDS = 1.0
IDLE_LIMIT_SECONDS = 10.0
PAUSE_SECONDS = 0.05
NUM_SAMPLES = 25
BUSY_SHARE = 0.3
"""The main process is idle if a thread runs in at most this share of NUM_SAMPLES samples, above the
share beside single sentences alone. Its CPU seconds would be few on a busy machine."""

UNITS = [
    ("<%", 6_000),
    ("<%", 19_500),
    ("a@a.", 40_000),
    *((unit, 40_000 // len(unit)) for unit in (
        "{{", "[x]", "-", "*", "&#", "%0", '"', "\N{NO-BREAK SPACE}", "&amp;", "<b>", "</", "<!--",
        "%s ", "http://a ", "1.", "`", "\n", "_a_", "😀", "{0}",
    )),
]  # fmt: skip
"""Repeated units, and the number of their repetitions."""

BEGINNINGS = ("", "", "", "", "The cat ", "A dog ", "Two birds ", "My horse ")
"""Text before the units, for each client. Units at the ends of a sentence are not translated."""

FORMATS = ("text", "html", "xml")


def request_of(port: int, form: str, text: str, timeout_ms: int | None = None) -> bytes:
    """Returns a request in a format; `xml` is DeepL's `tag_handling`, with an escaped text."""
    address = Address(HOST, port, "")
    if form == "xml":
        body = {"text": [escape(text, quote=False)], "source_lang": "EN", "target_lang": "PT-BR"}
        body["tag_handling"] = "xml"
        return address.request("POST", "/v2/translate", json.dumps(body).encode(), timeout_ms)
    query = {"q": text, "source": "en", "target": "pt", "format": form}
    return address.request("POST", "/translate", json.dumps(query).encode(), timeout_ms)


@dataclass
class Result:
    """Figures of one unit, with an entry for each format."""

    # latencies of the other requests, divided by their latencies without the text
    p50: list[float] = field(default_factory=list)
    p99: list[float] = field(default_factory=list)
    # seconds until the main process is idle
    hang_up: list[float] = field(default_factory=list)
    deadline: list[float] = field(default_factory=list)
    failed: int = 0  # number of other requests that failed
    statuses: Counter[str] = field(default_factory=Counter)  # number of replies, by status

    def row(self) -> str:
        """Returns a line of the table."""
        ratios = ["/".join(f"{each:.1f}" for each in values) for values in (self.p50, self.p99)]
        seconds = [
            "/".join(">10" if math.isinf(each) else f"{each:.1f}" for each in values)
            for values in (self.hang_up, self.deadline)
        ]
        replies = " ".join(f"{key}:{number}" for key, number in sorted(self.statuses.items()))
        cells = "".join(f"{cell:>16}" for cell in ratios + seconds)
        return f"{cells}{self.failed:>8}  {replies}"


class Attack(Measured):
    """Sends texts to servers of one checkout."""

    async def measure(self, unit: str, number: int, form: str, result: Result) -> None:
        """Sends the text of a unit in one format, and adds the figures to `result`."""
        if self.server is None:
            await self.start({})
        server, others = self.running()
        texts = [start + unit * number for start in BEGINNINGS]
        timeout_ms = int(1000 * DEADLINE_SECONDS)
        latencies: list[float] = []
        for seconds, patience, limit_ms, idle in (
            (HANG_UP_SECONDS, HANG_UP_SECONDS, None, result.hang_up),
            (DEADLINE_SECONDS, IDLE_LIMIT_SECONDS, timeout_ms, result.deadline),
        ):
            requests = [request_of(server.port, form, text, limit_ms) for text in texts]
            begin = time.perf_counter()
            clients = [
                asyncio.create_task(self._send(server.port, request, patience, result))
                for request in requests
            ]
            await asyncio.sleep(seconds)
            idle.append(await self._idle_seconds(server))
            await asyncio.gather(*clients)
            end = min(time.perf_counter(), begin + seconds + idle[-1])
            found, failed = others.between(begin, end)
            latencies += found
            result.failed += failed
            if math.isinf(idle[-1]):
                result.deadline[len(result.hang_up) - 1 :] = [math.inf]
                break
        result.p50.append(quantile(latencies, 0.5) / quantile(self.alone, 0.5))
        result.p99.append(quantile(latencies, 0.99) / quantile(self.alone, 0.99))
        if math.isinf(result.deadline[-1]) or not server.is_alive:
            await self.stop()

    async def _send(self, port: int, request: bytes, patience: float, result: Result) -> None:
        """Sends a request, and hangs up after `patience` seconds."""
        status = "none"
        with suppress(RequestError, TimeoutError):
            connection = await Connection.open(Address(HOST, port, ""))
            try:
                async with asyncio.timeout(patience):
                    status = str((await connection.send(request)).status)
            finally:
                connection.close()
        result.statuses[status] += 1

    async def _idle_seconds(self, server: Server) -> float:
        """Returns the seconds until the main process is idle; infinity after ten seconds."""
        begin = time.perf_counter()
        samples: list[tuple[float, bool]] = []
        while (now := time.perf_counter()) < begin + IDLE_LIMIT_SECONDS:
            samples.append((now, server.is_busy()))
            last = samples[-NUM_SAMPLES:]
            share = sum(is_busy for _, is_busy in last) / NUM_SAMPLES
            if len(last) == NUM_SAMPLES and share < self.alone_share + BUSY_SHARE:
                return last[0][0] - begin
            await asyncio.sleep(SAMPLE_SECONDS)
        return math.inf


async def measure_all(options: argparse.Namespace, folder: Path) -> None:
    """Measures all chosen units, and prints a line for each."""
    attack = Attack(options.server_root.resolve(), folder, PAUSE_SECONDS)
    forms = options.formats.split(",")
    chosen = [UNITS[int(each)] for each in options.only.split(",")] if options.only else UNITS
    try:
        await attack.start({})
        p50, p99 = (quantile(attack.alone, share) for share in (0.5, 0.99))
        print(
            f"alone: p50 {p50:.1f} ms, p99 {p99:.1f} ms, a thread runs in {attack.alone_share:.0%}"
        )
        print(f"each cell: {'/'.join(forms)}\n")
        names = ("p50 x alone", "p99 x alone", "hang-up idle s", "deadline idle s")
        print(f"{'unit':18}" + "".join(f"{name:>16}" for name in names) + "  failed  replies")
        for unit, number in chosen:
            result = Result()
            for form in forms:
                await attack.measure(unit, number, form, result)
            print(f"{f'{ascii(unit)} * {number}':18}{result.row()}", flush=True)
    finally:
        await attack.stop()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--server-root", type=Path, default=ROOT, help="checkout of the server")
    parser.add_argument("--only", default="", help="numbers of units, from 0, with commas")
    parser.add_argument("--formats", default=",".join(FORMATS), help="formats, with commas")
    options = parser.parse_args()
    began = time.perf_counter()
    with temporary_folder() as folder:
        run(measure_all(options, folder))
    print(f"\n{time.perf_counter() - began:.0f} s")


if __name__ == "__main__":
    main()
