"""Computes the shards of a job in one process, with one engine.

Several chunks are in progress at a time, so that the engine always has rows for its batches. Each
chunk is committed when it is computed.
"""

import asyncio
import math
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import filterfalse
from pathlib import Path
from typing import Any, Protocol, TypeVar

from service.bulk.chunks import Chunk, chunks_of
from service.bulk.folder import OutputFolder
from service.bulk.inputs import FORMATS
from service.bulk.job import Job
from service.bulk.journal import Journal
from service.bulk.rows import JobError, Outcome, Row

T = TypeVar("T")


class Engine(Protocol):
    """Computes rows.

    Attributes:
        rows_in_flight: Number of rows that keep the engine busy.
    """

    rows_in_flight: int

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
    """

    def __init__(self, folder: OutputFolder, job: Job, engine: Engine) -> None:
        self.folder = folder
        self.job = job
        self.engine = engine
        # All chunks of one shard begin before the chunks of the next shard. The rows of a shard are
        # sorted by length. If chunks of two shards alternated, a batch would mix long and short
        # rows.
        self.turn = asyncio.Lock()
        chunks = math.ceil(engine.rows_in_flight / job.options.chunk_rows)
        # At least two chunks may be in progress: one is computed while another is committed.
        self.places = asyncio.Semaphore(max(2, chunks))
        self.journal = Journal(folder.journal, "actor")
        # Only one thread writes files. `complete_file` changes the umask of the process for a
        # moment, and a second thread could read the changed value.
        self.files = ThreadPoolExecutor(1)

    async def compute(self, index: int) -> None:
        """Computes the uncommitted chunks of a shard, and publishes the shard.

        If another shard is being computed, this shard waits until the last chunk of that shard has
        begun.

        Raises:
            JobError: An input has changed, or the engine has failed.
            OSError: A file of the job cannot be read or written.
        """
        if self.folder.shard_path(self.job, index).exists():
            return
        try:
            async with asyncio.TaskGroup() as tasks:
                async with self.turn:
                    chunks = self._missing_chunks(index)
                    while chunk := await self._in_thread(next, chunks, None):
                        await self.places.acquire()
                        task = tasks.create_task(self._compute(index, chunk))
                        task.add_done_callback(lambda _: self.places.release())
        except ExceptionGroup as errors:
            raise errors.exceptions[0] from None
        self._check_input(index)
        await self._in_thread(self.folder.publish, self.job, index)

    async def _compute(self, index: int, chunk: Chunk) -> None:
        self.journal.add(begun=len(chunk.rows))
        outcomes = await self.engine.compute(chunk.rows)
        self.journal.add(cpu=self.engine.cpu_seconds())
        await self._commit(index, chunk, outcomes)

    async def _commit(self, index: int, chunk: Chunk, outcomes: Sequence[Outcome]) -> None:
        failed = sum(bool(outcome.error) for outcome in outcomes)
        # The chunk's line enters the journal before the commit. So each committed chunk has a line.
        # If this process is killed before the commit, the chunk is computed again and gets a second
        # line. Only the newest line of a chunk counts.
        self.journal.add(shard=index, chunk=chunk.number, failed=failed, at=time.time())
        await self._in_thread(self.folder.commit, self.job, index, chunk, outcomes)

    def _missing_chunks(self, index: int) -> Iterator[Chunk]:
        """Yields the chunks of a shard that are not committed."""
        committed = self.folder.committed(index)

        def is_committed(chunk: Chunk) -> bool:
            return self.folder.chunk_path(self.job, index, chunk.number).name in committed

        chunks = chunks_of(self._read(index), self.job.options.chunk_rows)
        return filterfalse(is_committed, chunks)

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
