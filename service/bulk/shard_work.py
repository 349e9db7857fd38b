"""Computes the shards of a job in one process, with one engine.

Many small chunks are computed at a time, so that the batches of the engine stay full. Two shards
may be computed at a time. The chunks of the second shard then fill the engine while the last chunks
of the first shard finish.
"""

import asyncio
import math
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from pathlib import Path
from typing import Any, Protocol, TypeVar

from service.bulk.folder import OutputFolder
from service.bulk.inputs import FORMATS
from service.bulk.job import Job
from service.bulk.journal import Journal
from service.bulk.rows import JobError, Outcome, Row

T = TypeVar("T")


class Engine(Protocol):
    """Computes rows."""

    async def start(self) -> None:
        """Loads the models.

        Raises:
            JobError: A model cannot be loaded.
        """

    async def compute(self, rows: Sequence[Row]) -> list[Outcome]:
        """Returns an outcome for each row.

        Raises:
            JobError: The engine has failed, and computes nothing any more.
        """

    async def stop(self) -> None:
        """Ends the device workers."""

    def cpu_seconds(self) -> float:
        """Returns the CPU seconds of this process and of its device workers."""


class ShardWork:
    """Computes shards with an engine.

    Args:
        folder: Output folder.
        job: The job.
        engine: Engine that has been started.
        rows_in_flight: Number of rows that are computed at a time.
    """

    def __init__(self, folder: OutputFolder, job: Job, engine: Engine, rows_in_flight: int) -> None:
        self.folder = folder
        self.job = job
        self.engine = engine
        self.slots = asyncio.Semaphore(math.ceil(rows_in_flight / job.options.chunk_rows))
        self.journal = Journal(folder.journal, "actor")
        # One thread, because `complete_file` changes the umask of the process for a moment.
        self.files = ThreadPoolExecutor(1)

    async def compute(self, index: int) -> None:
        """Computes the uncommitted chunks of a shard, and publishes the shard.

        Raises:
            JobError: An input has changed, or the engine has failed.
        """
        if self.folder.shard_path(self.job, index).exists():
            return
        committed = self.folder.committed(index)
        rows = self._read(index)
        try:
            async with asyncio.TaskGroup() as tasks:
                for chunk in range(self.job.num_chunks(index)):
                    await self.slots.acquire()
                    part = await self._in_thread(next_rows, rows, self.job.options.chunk_rows)
                    if self.folder.chunk_path(self.job, index, chunk).name in committed:
                        self.slots.release()
                    else:
                        task = tasks.create_task(self._compute(index, chunk, part))
                        task.add_done_callback(lambda _: self.slots.release())
        except ExceptionGroup as errors:
            raise errors.exceptions[0] from None
        self._check_input(index)
        await self._in_thread(self.folder.publish, self.job, index)

    async def _compute(self, index: int, chunk: int, rows: list[Row]) -> None:
        self.journal.add(begun=len(rows))
        outcomes = await self.engine.compute(rows)
        if failed := sum(bool(outcome.error) for outcome in outcomes):
            # The journal gets its line before the commit. So each committed chunk with errors has
            # a line there.
            self.journal.add(shard=index, chunk=chunk, failed=failed)
        await self._in_thread(self.folder.commit, self.job, (index, chunk), rows, outcomes)
        self.journal.add(cpu=self.engine.cpu_seconds())

    def _read(self, index: int) -> Iterator[Row]:
        self._check_input(index)
        options, shard = self.job.options, self.job.shard(index)
        path = Path(self.job.files[shard.file].path)
        return FORMATS[options.input_format].read(path, options.columns, shard)

    def _check_input(self, index: int) -> None:
        file = self.job.files[self.job.shard(index).file]
        if not file.is_untouched:
            raise JobError(
                f"{file.path} has changed while the job was running; delete the output folder and "
                "start again"
            )

    async def _in_thread(self, call: Callable[..., T], *args: Any) -> T:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self.files, call, *args)


def next_rows(rows: Iterator[Row], number: int) -> list[Row]:
    """Returns the next rows of an iterator, at most `number`."""
    return [*islice(rows, number)]
