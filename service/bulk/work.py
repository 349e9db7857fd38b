"""Computes the shards of a job: with one engine in this process, or with Ray on several machines.

Ray receives the indices of shards, not rows: an engine reads the rows of a shard and writes their
results. A shard is computed unless its file is in the output folder.
"""

import asyncio
import importlib.util
import math
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import filterfalse
from pathlib import Path
from types import ModuleType
from typing import Any, Protocol

import uvloop

from model.errors import ModelError
from service import logs
from service.bulk.folder import Journal, OutputFolder
from service.bulk.formats import INPUTS
from service.bulk.job import Job, JobOptions
from service.bulk.rows import Chunk, JobError, Outcome, Row, chunks_of
from service.settings import Settings

QUIET = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    "RAY_BACKEND_LOG_LEVEL": "fatal",
}
SHARDS_AT_ONCE = 2
"""Number of shards of an engine in progress. The second begins when the chunks of the first end."""

MAX_LOSSES = 5
"""If a shard's actor ends this often before the shard is computed, the job ends with an error."""

Advance = Callable[[int], object]
"""Receives the number of rows that were committed since the last call."""


class Engine(Protocol):
    """Computes rows. `rows_in_flight` keep it busy; `cpu_seconds` include its device workers."""

    rows_in_flight: int

    def __init__(self, options: JobOptions, settings: Settings, cores: int) -> None: ...

    async def start(self) -> None: ...

    async def compute(self, rows: Sequence[Row]) -> list[Outcome]: ...

    async def stop(self) -> None: ...

    def cpu_seconds(self) -> float: ...


@dataclass(frozen=True, slots=True)
class EngineSpec:
    """The output folder, which has the job, and the engine that computes it."""

    folder: Path
    settings: Settings  # from `take_models`: each local model is a folder or a Python package
    cores: int
    engine: type[Engine] | None = None  # None is CoreEngine, whose import takes a second


class ShardWork:
    def __init__(
        self, folder: OutputFolder, job: Job, engine: Engine, advance: Advance = lambda _: None
    ) -> None:
        self.folder = folder
        self.job = job
        self.engine = engine
        self.advance = advance
        # All chunks of one shard begin before the chunks of the next shard. The rows of a shard are
        # sorted by length. If chunks of two shards alternated, a batch would mix long and short
        # rows.
        self.turn = asyncio.Lock()
        chunks = math.ceil(engine.rows_in_flight / job.options.chunk_rows)
        # At least two chunks may be in progress: one is computed while another is committed.
        self.places = asyncio.Semaphore(max(2, chunks))
        self.journal = Journal(folder.journal, "actor")

    async def compute(self, index: int) -> None:
        if self.folder.shard_path(self.job, index).exists():
            return
        with first_error():
            async with asyncio.TaskGroup() as tasks, self.turn:
                chunks = self._missing_chunks(index)
                while chunk := await asyncio.to_thread(next, chunks, None):
                    await self.places.acquire()
                    task = tasks.create_task(self._compute(index, chunk))
                    task.add_done_callback(lambda _: self.places.release())
        self._check_input(index)
        await asyncio.to_thread(self.folder.publish, self.job, index)

    async def _compute(self, index: int, chunk: Chunk) -> None:
        self.journal.add(begun=len(chunk.rows))
        outcomes = await self.engine.compute(chunk.rows)
        self.journal.add(cpu=self.engine.cpu_seconds())
        failed = sum(bool(outcome.error) for outcome in outcomes)
        # The chunk's line enters the journal before the commit. So each committed chunk has a line.
        # If this process is killed before the commit, the chunk is computed again and gets a second
        # line. Only the newest line of a chunk counts.
        self.journal.add(shard=index, chunk=chunk.number, failed=failed, at=time.time())
        await asyncio.to_thread(self.folder.commit, self.job, index, chunk, outcomes)
        self.advance(len(chunk.rows))

    def _missing_chunks(self, index: int) -> Iterator[Chunk]:
        committed = self.folder.committed(index)

        def is_committed(chunk: Chunk) -> bool:
            return self.folder.chunk_path(self.job, index, chunk.number).name in committed

        self._check_input(index)
        options, shard = self.job.options, self.job.shard(index)
        path = Path(self.job.files[shard.file].path)
        rows = INPUTS[options.input_format].read(path, options.columns, shard)
        return filterfalse(is_committed, chunks_of(rows, options.chunk_rows))

    def _check_input(self, index: int) -> None:
        file = self.job.files[self.job.shard(index).file]
        if not file.is_untouched:
            raise JobError(
                f"{file.path} has changed while the job was running; delete the output folder and "
                "start again"
            )


@contextmanager
def first_error() -> Iterator[None]:
    """Raises the first error of a TaskGroup in place of the group."""
    try:
        yield
    except ExceptionGroup as errors:
        raise errors.exceptions[0] from None


async def open_work(spec: EngineSpec, advance: Advance = lambda _: None) -> ShardWork:
    folder = OutputFolder(spec.folder)
    job = folder.recorded()
    if job is None:
        raise JobError(f"{spec.folder} has no job; do all machines of the cluster see the folder?")
    engine = (spec.engine or core_engine())(job.options, spec.settings, spec.cores)
    await engine.start()
    return ShardWork(folder, job, engine, advance)


def core_engine() -> type[Engine]:
    from service.bulk.engine import CoreEngine

    return CoreEngine


def compute_here(spec: EngineSpec, shards: Sequence[int], advance: Advance) -> None:
    """Computes shards with one engine, whose device workers are processes of this command."""
    run, started = Journal(OutputFolder(spec.folder).journal, "run"), time.monotonic()

    def committed(num_rows: int) -> None:
        run.add(machine_seconds=time.monotonic() - started)
        advance(num_rows)

    async def compute() -> None:
        work = await open_work(spec, committed)
        waiting = iter(shards)

        async def compute_next() -> None:
            for index in waiting:
                await work.compute(index)

        try:
            with first_error():
                async with asyncio.TaskGroup() as tasks:
                    for _ in range(SHARDS_AT_ONCE):
                        tasks.create_task(compute_next())
        finally:
            await work.engine.stop()

    uvloop.run(compute())


class ShardActor:
    """An actor of Ray with one engine. Ray starts it again if its process or machine is lost."""

    def __init__(self, spec: EngineSpec) -> None:
        logs.configure_own(spec.settings.log_level, spec.settings.log_format)
        self.spec = spec
        self.work: asyncio.Task[ShardWork] | None = None

    async def compute(self, index: int) -> str:
        """Computes a shard; returns "", or the reason why the engine or the shard failed.

        The engine starts here, because Ray restarts an actor without end if its constructor fails.
        """
        if self.work is None:
            self.work = asyncio.create_task(open_work(self.spec))
        try:
            await (await self.work).compute(index)
        except (JobError, ModelError, OSError) as error:
            return str(error) or type(error).__name__
        return ""


@dataclass(frozen=True, slots=True)
class Cluster:
    address: str
    num_actors: int
    gpus: int  # of each actor


def compute_on_ray(
    spec: EngineSpec, job: Job, shards: Sequence[int], cluster: Cluster, advance: Advance
) -> None:
    """Computes shards with the actors of a cluster. Each actor has an engine with `spec.cores`."""
    folder, started = OutputFolder(spec.folder), time.monotonic()
    run, num_done = Journal(folder.journal, "run"), folder.num_rows_done(job)
    with connected(cluster.address) as ray:
        from ray.util import ActorPool

        num_machines = sum(node["Alive"] for node in ray.nodes())
        start = ray.remote(
            num_cpus=spec.cores, num_gpus=cluster.gpus, max_restarts=-1, max_task_retries=MAX_LOSSES
        )(ShardActor)
        actors = [start.remote(spec) for _ in range(min(cluster.num_actors, len(shards)))]
        pool = ActorPool(actors * SHARDS_AT_ONCE)

        def submit(actor: Any, index: int) -> Any:
            return actor.compute.remote(index)

        for error in pool.map_unordered(submit, [*shards]):
            seconds = (time.monotonic() - started) * num_machines
            run.add(machine_seconds=seconds, cpu=time.process_time())
            if error:
                raise JobError(error)
            before, num_done = num_done, folder.num_rows_done(job)
            advance(num_done - before)


@contextmanager
def connected(address: str) -> Iterator[ModuleType]:
    ray = load_ray()
    try:
        with without_stderr():
            ray.init(address, log_to_driver=False, logging_level="ERROR")
    except Exception as error:  # Ray also raises the class Exception itself
        raise JobError(f"Ray cannot be used: {error}; check --address") from None
    try:
        yield ray
    except ray.exceptions.RayError as error:
        last = "".join(str(error).strip().splitlines()[-1:])
        raise JobError(f"{type(error).__name__}: {last}; see Ray's logs") from None
    finally:
        ray.shutdown()


@contextmanager
def without_stderr() -> Iterator[None]:
    """Discards the standard error, to which Ray's native code prints its attempts."""
    kept = os.dup(2)
    try:
        with open(os.devnull, "wb") as null:
            os.dup2(null.fileno(), 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)


def load_ray() -> ModuleType:
    if importlib.util.find_spec("ray") is None:
        raise JobError("--address needs Ray, which is missing: pip install 'regard[ray]'")
    for name, value in QUIET.items():
        os.environ.setdefault(name, value)
    import ray

    return ray
