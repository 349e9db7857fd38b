"""Computes the shards of a job in one process, with one engine.

A group of chunks is computed together, and then each chunk is committed by itself. Two groups are
in progress at a time, which may belong to two shards. The second one fills the batches of the
engine while the last rows of the first one finish.
"""

import asyncio
import math
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import chain, islice
from pathlib import Path
from typing import Any, Protocol, TypeVar

from service.bulk.folder import OutputFolder
from service.bulk.group_size import GroupSize
from service.bulk.inputs import FORMATS
from service.bulk.job import Job
from service.bulk.journal import Journal
from service.bulk.rows import JobError, Outcome, Row

T = TypeVar("T")

Chunk = tuple[int, list[Row]]
"""Number of a chunk in its shard, and the rows of the chunk."""

GROUPS = 2
"""Number of groups in progress at a time."""


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
        group_size: Number of rows of a group.
    """

    def __init__(
        self, folder: OutputFolder, job: Job, engine: Engine, group_size: GroupSize
    ) -> None:
        self.folder = folder
        self.job = job
        self.engine = engine
        self.group_size = group_size
        self.groups = asyncio.Semaphore(GROUPS)
        self.parts = asyncio.Semaphore(math.ceil(group_size.in_flight / job.options.chunk_rows))
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
        chunks = self._missing_chunks(index)
        try:
            async with asyncio.TaskGroup() as tasks:
                while True:
                    await self.groups.acquire()
                    group = await self._in_thread(next_group, chunks, self.group_size.rows)
                    if not group:
                        self.groups.release()
                        break
                    task = tasks.create_task(self._compute(index, group))
                    task.add_done_callback(lambda _: self.groups.release())
        except ExceptionGroup as errors:
            raise errors.exceptions[0] from None
        self._check_input(index)
        await self._in_thread(self.folder.publish, self.job, index)

    async def _compute(self, index: int, group: list[Chunk]) -> None:
        rows = [row for _, part in group for row in part]
        begun = time.monotonic()
        outcomes = iter(await self._outcomes(rows))
        self.group_size.add(len(rows), begun, time.monotonic())
        for number, part in group:
            await self._commit((index, number), part, [*islice(outcomes, len(part))])

    async def _outcomes(self, rows: list[Row]) -> list[Outcome]:
        """Returns an outcome for each row. The rows are computed in parts, the longest first."""
        order = sorted(range(len(rows)), key=lambda each: len(rows[each].text or ""), reverse=True)
        size = self.job.options.chunk_rows
        parts = [order[first : first + size] for first in range(0, len(order), size)]
        computed = [self._part([rows[each] for each in part]) for part in parts]
        found = chain.from_iterable(await asyncio.gather(*computed))
        outcomes = dict(zip(order, found, strict=True))
        return [outcomes[each] for each in range(len(rows))]

    async def _part(self, rows: list[Row]) -> list[Outcome]:
        async with self.parts:
            self.journal.add(begun=len(rows))
            outcomes = await self.engine.compute(rows)
            self.journal.add(cpu=self.engine.cpu_seconds())
            return outcomes

    async def _commit(
        self, place: tuple[int, int], rows: list[Row], outcomes: list[Outcome]
    ) -> None:
        index, chunk = place
        if failed := sum(bool(outcome.error) for outcome in outcomes):
            # The journal gets its line before the commit. So each committed chunk with errors has
            # a line there.
            self.journal.add(shard=index, chunk=chunk, failed=failed)
        await self._in_thread(self.folder.commit, self.job, place, rows, outcomes)

    def _missing_chunks(self, index: int) -> Iterator[Chunk]:
        """Yields the chunks of a shard that are not committed."""
        committed = self.folder.committed(index)
        rows = self._read(index)
        for number in range(self.job.num_chunks(index)):
            part = [*islice(rows, self.job.options.chunk_rows)]
            if self.folder.chunk_path(self.job, index, number).name not in committed:
                yield number, part

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


def next_group(chunks: Iterator[Chunk], num_rows: int) -> list[Chunk]:
    """Returns the next chunks of a shard, with at least `num_rows` rows if there are as many."""
    group = list[Chunk]()
    while sum(len(rows) for _, rows in group) < num_rows and (chunk := next(chunks, None)):
        group.append(chunk)
    return group
