"""The journal of a job: computed rows, CPU seconds and costs, over all runs of the job.

Each process appends lines to a separate file. If a process is killed, its lines remain in the file.
Only a last, unfinished line is lost.
"""

import json
import os
import socket
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

MILLION = 1_000_000
SECONDS_PER_HOUR = 3600.0


class Journal:
    """Appends lines to the file of this process.

    Args:
        folder: Folder of the journal.
        kind: `actor` or `run`, the beginning of the file's name.
    """

    def __init__(self, folder: Path, kind: str) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        name = f"{kind}-{socket.gethostname()}-{os.getpid()}-{uuid4().hex[:8]}.jsonl"
        self.path = folder / name
        self.path.touch()

    def add(self, **fields: float) -> None:
        """Appends a line."""
        with self.path.open("ab") as file:
            file.write(json.dumps(fields).encode() + b"\n")


@dataclass(frozen=True, slots=True)
class Totals:
    """Sums over all runs of a job.

    Attributes:
        rows_computed: Rows whose computation has begun. If the result of a row is lost, the row is
            computed and counted again.
        cpu_seconds: CPU seconds of the actors, their device workers, and `regard bulk` itself.
        machine_seconds: Duration of each run in seconds, multiplied by its number of machines.
        num_runs: Number of runs.
        num_actors: Number of actors that were started.
        failed_rows: Rows with an error.
    """

    rows_computed: int
    cpu_seconds: float
    machine_seconds: float
    num_runs: int
    num_actors: int
    failed_rows: int


def read_totals(folder: Path) -> Totals:
    """Returns the sums over all files of a journal.

    In the lines of one file, `cpu` and `machine_seconds` are running totals, so the largest value
    counts. If several lines give the failed rows of the same chunk, the newest line counts.
    """
    rows, cpu, machine, runs, actors = 0, 0.0, 0.0, 0, 0
    failed: dict[tuple[int, int], tuple[float, int]] = {}
    for path in sorted(folder.glob("*.jsonl")):
        lines = list(read_lines(path))
        for line in lines:
            if "failed" in line:
                key, found = (line["shard"], line["chunk"]), (line.get("at", 0.0), line["failed"])
                failed[key] = max(found, failed.get(key, found))
        rows += sum(line.get("begun", 0) for line in lines)
        cpu += max((line.get("cpu", 0.0) for line in lines), default=0.0)
        machine += max((line.get("machine_seconds", 0.0) for line in lines), default=0.0)
        runs += path.name.startswith("run-")
        actors += path.name.startswith("actor-")
    num_failed = sum(number for _, number in failed.values())
    return Totals(rows, cpu, machine, runs, actors, num_failed)


def read_lines(path: Path) -> Iterator[dict[str, Any]]:
    """Yields the complete lines of a file."""
    for line in path.read_bytes().splitlines():
        try:
            fields = json.loads(line)
        except ValueError:  # the process was killed while it wrote the line
            continue
        yield fields


def costs(totals: Totals, num_rows: int, price_per_hour: float | None) -> dict[str, Any]:
    """Returns the figures of a complete job for its manifest.

    Args:
        totals: Sums over all runs.
        num_rows: Number of rows of the job.
        price_per_hour: Price of a machine for an hour, in any currency; None if it is not known.
    """
    figures: dict[str, Any] = asdict(totals)
    figures["recomputed_share"] = max(0.0, totals.rows_computed / num_rows - 1)
    figures["cpu_seconds_per_million"] = totals.cpu_seconds * MILLION / num_rows
    if price_per_hour is not None:
        price = price_per_hour * totals.machine_seconds / SECONDS_PER_HOUR
        figures["price"] = price
        figures["price_per_million"] = price * MILLION / num_rows
    return figures
