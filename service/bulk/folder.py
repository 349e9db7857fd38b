"""The output folder of a job: chunks, shards, the manifest, and the journal with its costs.

    part-00000.jsonl    a shard: the results of a range of rows, in order
    _manifest.json      written last: the job is complete
    _work/job.json      options and inputs of the job
    _work/shards.npy    the ranges of rows
    _work/chunks/       committed chunks of the shards in progress
    _work/journal/      numbers of computed rows, CPU seconds

Every file except the lock and the journal gets its name only when its bytes are on the disk. A
chunk or shard therefore exists completely or not at all. If two processes compute the same rows,
the second file replaces the first with the same content.
"""

import fcntl
import json
import os
import re
import shutil
import socket
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np

from service.bulk.formats import OUTPUTS
from service.bulk.job import Job, restore
from service.bulk.rows import Chunk, JobError, Outcome
from service.disk import complete_file

WORK = "_work"
MANIFEST = "_manifest.json"
MILLION = 1_000_000
SECONDS_PER_HOUR = 3600.0
SHARD_NAME = re.compile(r"part-(\d{5,})\.(?:jsonl|parquet)")


class OutputFolder:
    def __init__(self, path: Path) -> None:
        self.path = path
        self.work = path / WORK
        self.chunks = self.work / "chunks"
        self.journal = self.work / "journal"

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keeps other commands out of the folder until the context or the process ends."""
        self.check_names()
        self.work.mkdir(parents=True, exist_ok=True)
        with (self.work / "lock").open("wb") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                raise JobError(
                    f"another `regard bulk` writes to {self.path}; wait until it ends, or choose "
                    "another --output"
                ) from None
            yield

    def check_names(self) -> None:
        if self.path.exists() and not self.path.is_dir():
            raise JobError(f"{self.path} is a file; choose a folder for --output")
        names = sorted(os.listdir(self.path)) if self.path.exists() else []
        own = {WORK, MANIFEST}
        if has_job := not own.isdisjoint(names):
            names = [name for name in names if SHARD_NAME.fullmatch(name) is None]
        if unknown := [name for name in names if name not in own]:
            reason = "do not belong to its job" if has_job else "are not from `regard bulk`"
            raise JobError(
                f"{self.path} has files that {reason}: {', '.join(unknown[:5])}; move them, or "
                "choose another --output"
            )

    def manifest(self) -> dict[str, Any] | None:
        return read_json(self.path / MANIFEST)

    def begin(self, job: Job) -> None:
        if shards := [name for name in os.listdir(self.path) if SHARD_NAME.fullmatch(name)]:
            raise JobError(
                f"{self.path} has {shards[0]} of an unknown job; choose another --output"
            )
        with complete_file(self.work / "shards.npy", is_durable=True) as file:
            np.save(file, job.table)
        self.record(job)

    def record(self, job: Job) -> None:
        """Records the options and the inputs of a job. After this call, the job can be resumed."""
        with complete_file(self.work / "job.json", is_durable=True) as file:
            file.write(json.dumps(job.description(), indent=1).encode())

    def recorded(self) -> Job | None:
        if (description := read_json(self.work / "job.json")) is None:
            return None
        return restore(description, np.load(self.work / "shards.npy", mmap_mode="r"))

    def shard_path(self, job: Job, index: int) -> Path:
        suffix = OUTPUTS[job.options.output_format].suffix
        return self.path / f"part-{index:05d}{suffix}"

    def chunk_path(self, job: Job, index: int, chunk: int) -> Path:
        suffix = OUTPUTS[job.options.output_format].chunk_suffix
        return self.chunks / f"{index:05d}" / f"{chunk:05d}{suffix}"

    def unfinished(self, job: Job) -> list[int]:
        return sorted({*range(len(job.table))} - self._published())

    def _published(self) -> set[int]:
        found = map(SHARD_NAME.fullmatch, os.listdir(self.path))
        return {int(match[1]) for match in found if match is not None}

    def num_rows_done(self, job: Job) -> int:
        """Returns the number of committed rows. A chunk of a shard in progress counts in full."""
        begun = {int(name) for name in listed(self.chunks) if name.isdecimal()}
        published = self._published()  # after `begun`: a shard is published, then loses its chunks
        in_progress = (
            min(job.shard(index).num_rows, len(self.committed(index)) * job.options.chunk_rows)
            for index in begun - published
        )
        return int(job.table[sorted(published), 2].sum()) + sum(in_progress)

    def committed(self, index: int) -> set[str]:
        names = listed(self.chunks / f"{index:05d}")
        return {name for name in names if not name.startswith(".")}

    def commit(self, job: Job, index: int, chunk: Chunk, outcomes: Sequence[Outcome]) -> None:
        """Writes a chunk of a shard, the first phase of its commit; the second is `publish`."""
        form = OUTPUTS[job.options.output_format]
        with complete_file(self.chunk_path(job, index, chunk.number), is_durable=True) as file:
            form.write_chunk(file, job.options.result, job.has_numbers, chunk, outcomes)

    def publish(self, job: Job, index: int) -> None:
        """Merges the chunks of a shard into the file of the shard, and deletes the chunks.

        If another process has already published the shard and deleted the chunks, the file of that
        process stays.
        """
        final = self.shard_path(job, index)
        paths = [self.chunk_path(job, index, each) for each in range(job.num_chunks(index))]
        try:
            with complete_file(final, is_durable=True, folder=self.work) as file:
                num_rows = OUTPUTS[job.options.output_format].merge(paths, file)
                if num_rows != job.shard(index).num_rows:
                    raise JobError(
                        f"the chunks of {final.name} have {num_rows} different rows, but the shard "
                        f"has {job.shard(index).num_rows} rows; delete {self.path} and start again"
                    )
        except FileNotFoundError:
            if not final.exists():
                raise
        shutil.rmtree(self.chunks / f"{index:05d}", ignore_errors=True)

    def finish(self, manifest: dict[str, Any]) -> None:
        with complete_file(self.path / MANIFEST, is_durable=True, folder=self.work) as file:
            file.write(json.dumps(manifest, indent=1).encode())
        self.delete_work()

    def delete_work(self) -> None:
        shutil.rmtree(self.work, ignore_errors=True)


def read_json(path: Path) -> dict[str, Any] | None:
    try:
        found: dict[str, Any] = json.loads(path.read_bytes())
    except FileNotFoundError:
        return None
    return found


def listed(folder: Path) -> list[str]:
    try:
        return os.listdir(folder)
    except FileNotFoundError:
        return []


class Journal:
    """Appends lines to a file of this process, which keeps them if the process is killed."""

    def __init__(self, folder: Path, kind: str) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        name = f"{kind}-{socket.gethostname()}-{os.getpid()}-{uuid4().hex[:8]}.jsonl"
        self.path = folder / name
        self.path.touch()

    def add(self, **fields: float) -> None:
        with self.path.open("ab") as file:
            file.write(json.dumps(fields).encode() + b"\n")


def read_totals(folder: Path) -> dict[str, Any]:
    """Returns the sums over all runs of a job, for its manifest.

    In the lines of one file, `cpu` and `machine_seconds` are running totals, so the largest value
    counts. Of several lines about the failed rows of a chunk, the newest counts. A row whose result
    was lost is computed and counted again.
    """
    totals: defaultdict[str, Any] = defaultdict(int)
    failed: dict[tuple[int, int], tuple[float, int]] = {}
    for path in folder.glob("*.jsonl"):
        lines = [*read_lines(path)]
        for name in ("cpu", "machine_seconds"):
            totals[name] += max((line.get(name, 0.0) for line in lines), default=0.0)
        totals["begun"] += sum(line.get("begun", 0) for line in lines)
        totals[path.name.partition("-")[0]] += 1
        for line in lines:
            if "failed" in line:
                key, found = (line["shard"], line["chunk"]), (line.get("at", 0.0), line["failed"])
                failed[key] = max(found, failed.get(key, found))
    return {
        "rows_computed": totals["begun"],
        "cpu_seconds": totals["cpu"],
        "machine_seconds": totals["machine_seconds"],
        "num_runs": totals["run"],
        "num_actors": totals["actor"],
        "failed_rows": sum(number for _, number in failed.values()),
    }


def read_lines(path: Path) -> Iterator[dict[str, Any]]:
    for line in path.read_bytes().splitlines():
        try:
            fields = json.loads(line)
        except ValueError:  # the process was killed while it wrote the line
            continue
        yield fields


def costs(totals: dict[str, Any], num_rows: int, price_per_hour: float | None) -> dict[str, Any]:
    figures = totals | {
        "recomputed_share": max(0.0, totals["rows_computed"] / num_rows - 1),
        "cpu_seconds_per_million": totals["cpu_seconds"] * MILLION / num_rows,
    }
    if price_per_hour is not None:
        price = price_per_hour * totals["machine_seconds"] / SECONDS_PER_HOUR
        figures |= {"price": price, "price_per_million": price * MILLION / num_rows}
    return figures
