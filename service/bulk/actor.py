"""An actor of Ray Data, with one engine.

The engine runs in an event loop in a separate thread. Ray Data calls the actor from another event
loop. Several calls, with one shard each, may be in progress at a time.
"""

import asyncio
import importlib
import threading
from collections.abc import Coroutine
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import uvloop
from numpy.typing import NDArray

from model.errors import ModelError
from service import logs
from service.bulk.folder import OutputFolder
from service.bulk.job import JobOptions
from service.bulk.rows import JobError
from service.bulk.shard_work import Engine, ShardWork
from service.settings import Settings

CORE_ENGINE = "service.bulk.engine:CoreEngine"

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ActorSpec:
    """The folder and the engine of an actor. The actor reads the job from the folder.

    Attributes:
        folder: Output folder.
        settings: Settings from `take_models`. Each local model is a folder or a Python package.
        cores: Number of CPU cores of the actor.
        engine: Module and class of the engine.
    """

    folder: Path
    settings: Settings
    cores: int
    engine: str = CORE_ENGINE


class ShardActor:
    """Computes the shards that Ray Data sends.

    If the engine cannot start or a shard cannot be computed, `__call__` returns the error message.
    The constructor does not raise the error, because Ray restarts an actor whose constructor fails.
    Only a JobError, a ModelError or an OSError is returned. Any other exception reaches Ray.

    Args:
        spec: Folder and engine of the actor.
    """

    def __init__(self, spec: ActorSpec) -> None:
        logs.configure_own(spec.settings.log_level, spec.settings.log_format)
        self.loop = uvloop.new_event_loop()
        threading.Thread(target=self.loop.run_forever, daemon=True).start()
        self.work = self._submit(open_work(spec))

    async def __call__(self, batch: dict[str, NDArray[np.int64]]) -> dict[str, Any]:
        """Computes shards; returns their indices, and an error message or "" for each shard."""
        shards = [int(index) for index in batch["shard"]]
        errors = [await asyncio.wrap_future(self._submit(self._compute(each))) for each in shards]
        return {"shard": shards, "error": errors}

    async def _compute(self, index: int) -> str:
        try:
            await (await asyncio.wrap_future(self.work)).compute(index)
        except (JobError, ModelError, OSError) as error:
            return str(error) or type(error).__name__
        return ""

    def _submit(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        return asyncio.run_coroutine_threadsafe(work, self.loop)


async def open_work(spec: ActorSpec) -> ShardWork:
    """Starts an engine, and returns a ShardWork that uses the engine.

    Raises:
        JobError: The folder has no job, or a model cannot be loaded.
        ModelError: The files of a model are damaged.
    """
    folder = OutputFolder(spec.folder)
    job = folder.recorded()
    if job is None:
        raise JobError(f"{spec.folder} has no job; do all machines of the cluster see the folder?")
    engine = make_engine(spec, job.options)
    await engine.start()
    return ShardWork(folder, job, engine)


def make_engine(spec: ActorSpec, options: JobOptions) -> Engine:
    """Returns the engine that a specification names."""
    module, _, name = spec.engine.partition(":")
    kind = getattr(importlib.import_module(module), name)
    engine: Engine = kind(options, spec.settings, spec.cores)
    return engine
