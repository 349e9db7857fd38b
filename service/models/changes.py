"""Loading and unloading of models while the server runs, in the process that owns the workers.

Before a model is loaded, a thread searches for its files on disk. A search that takes too long is
given up. After the search, models are loaded and unloaded one at a time. A model is loaded in all
workers, then added to the queues, then announced to the processes that answer HTTP. Unloading takes
these steps in reverse order.
"""

import asyncio
import logging
import math
import threading
import time
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from concurrent.futures import Future
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import TypeVar

from model.checkpoints.families.sentence_transformers import EmbeddingFiles
from model.checkpoints.load import ModelFiles
from model.errors import ModelError
from service.errors import (
    SHOWN_CHARS,
    ConflictError,
    InternalError,
    InvalidRequestError,
    NotFoundError,
    ServiceError,
    UnavailableError,
    loading,
    stopping,
)
from service.models.catalog import find_all, load_served
from service.models.registry.cache import ModelCache
from service.models.registry.errors import RegistryError
from service.models.registry.locate import locate, missing_files, placements_of
from service.models.registry.references import Source, read_entries
from service.models.remote import RemoteFiles
from service.models.served import ModelState, OnDemand
from service.scheduling.supervisor import LoadRefusedError, Supervisor, WorkerLostError
from service.settings import Settings
from service.workers.messages import AnyFiles, ModelSet

logger = logging.getLogger("regard.models")

T = TypeVar("T")
Placements = Mapping[str, tuple[str, str]]
"""Maps a folder of a model to the device and dtype that a manifest sets."""

Announce = Callable[[ModelSet], Awaitable[None]]
"""Announces the served models to the processes that answer HTTP, and waits until they serve them.

If a model was removed, it also waits for the running requests to this model, for a limited time. It
raises CheckpointError if a process cannot serve the models.
"""

LOAD_SECONDS = 600.0
"""Time limit of the search for a model, and of its load in the workers."""

RETRY_SECONDS = 30.0
"""Time after a failed load on demand in which requests for the model get its error."""

FIRST_USE_SECONDS = 2.0
"""Time that a model loaded on demand has for its first request."""

CHECK_SECONDS = 0.02
"""Time between two checks whether a model is idle."""


async def announce_to_none(_files: ModelSet) -> None: ...


class ModelChanges:
    """Loads and unloads served models."""

    def __init__(
        self,
        files: ModelSet,
        settings: Settings,
        supervisor: Supervisor,
        kinds_of: Callable[[AnyFiles], Sequence[str]],
        on_demand: Mapping[str, OnDemand] = MappingProxyType({}),
    ) -> None:
        self.files = files
        self.settings = settings
        self.supervisor = supervisor
        self.kinds_of = kinds_of
        self.on_demand = on_demand
        self.needed: dict[str, asyncio.Task[None]] = {}  # loads of models on demand, by name
        self.needed_at: dict[str, float] = {}  # time of the last `require` by name, by perf_counter
        self.refused: dict[str, tuple[float, ServiceError]] = {}  # failed loads, with their time
        self.announce: Announce = announce_to_none
        self.states: dict[str, ModelState] = {}  # of models in loading or unloading, or failed
        self.failures: dict[str, str] = {}  # reasons of the state `failed`, by model
        # Models whose load still ran when the request got the reply `loading`. The client has not
        # received the result of this load.
        self.overdue: set[str] = set()
        self.turn = asyncio.Lock()
        self.tasks: set[asyncio.Task[None]] = set()
        supervisor.on_lost_model = self._lose

    async def load(self, name: str, source: str) -> str:
        """Loads the model `name` of the reference `source`.

        Returns `ready`, or `loading` if a request's time limit passes first.
        """
        self._check_idle(name)
        if name in self.files.names:
            raise ConflictError(
                f"{name} is loaded already; unload it first: DELETE /v1/models/{name}"
            )
        if self.supervisor.is_draining:
            raise stopping()
        if not self.supervisor.is_ready:
            raise loading()
        self.states[name] = "loading"
        self.failures.pop(name, None)
        self.overdue.discard(name)
        state = await self._within_request(self._load(name, source), "ready", "loading")
        if state == "loading":
            self.overdue.add(name)
        return state

    async def unload(self, name: str) -> str:
        """Returns `unloaded`, or `unloading` if a request's time limit passes first."""
        self._check_idle(name)
        if self.states.get(name) == "failed":
            del self.states[name], self.failures[name]
            return "unloaded"
        if name not in self.files.names:
            there = ", ".join(sorted(self.files.names)) or "none"
            raise NotFoundError(f"there is no model {name}; there are: {there}", param="model")
        if any(each.name == name and isinstance(each, RemoteFiles) for each in self.files.files):
            raise ConflictError(f"{name} is a remote model; remove it from REGARD_MODELS")
        self.states[name] = "unloading"
        return await self._within_request(self._unload(name), "unloaded", "unloading")

    async def require(self, names: Sequence[str]) -> None:
        """Loads models on demand, and returns when all of them are served."""
        names = [name for name in names if name in self.on_demand]
        limit = self.settings.max_loaded_models
        if 0 < limit < len(names):
            raise UnavailableError(
                f"{' and '.join(names)} are needed together, and REGARD_MAX_LOADED_MODELS is "
                f"{limit}; raise it"
            )
        self.needed_at |= dict.fromkeys(names, time.perf_counter())
        # Until its load has ended, not all processes serve a model.
        missing = [name for name in names if name not in self.files.names or name in self.states]
        if not missing:
            return
        self.supervisor.metrics.model_misses.inc()
        for name in missing:
            if name not in self.needed:
                self.needed[name] = task = self._start(self._load_needed(name, names))
                task.add_done_callback(partial(self._end_needed, name))
        if not self.settings.wait_for_models:
            raise UnavailableError(f"models are being loaded: {', '.join(missing)}; try again", 2)
        for task in [self.needed[name] for name in missing]:
            await asyncio.shield(task)  # other requests wait for it too

    def _end_needed(self, name: str, _task: asyncio.Task[None]) -> None:
        del self.needed[name]

    async def _load_needed(self, name: str, kept: Sequence[str]) -> None:
        failed, error = self.refused.get(name, (-math.inf, None))
        if error is not None and time.perf_counter() < failed + RETRY_SECONDS:
            raise error.with_traceback(None)
        while self.states.get(name) in ("loading", "unloading"):
            await asyncio.sleep(CHECK_SECONDS)
        if name in self.files.names:
            return
        self.states[name] = "loading"
        try:
            await self._load(name, self.on_demand[name].reference, kept)
        except ServiceError as error:
            if not isinstance(error, UnavailableError):
                self.refused[name] = time.perf_counter(), error
            raise
        self.refused.pop(name, None)

    async def _make_room(self, files: AnyFiles, kept: Sequence[str]) -> None:
        """Unloads models on demand until one more fits, the least recently used ones first.

        Args:
            kept: Models that the same request needs.
        """
        deadline = time.perf_counter() + self.settings.request_timeout_seconds
        while not self._has_room(files):
            name = self._least_used(kept)
            if name is not None:
                self.states[name] = "unloading"
                await self._unload_alone(name)
                self.supervisor.metrics.model_evictions.inc()
            elif time.perf_counter() < deadline:
                await asyncio.sleep(CHECK_SECONDS)
            else:
                raise UnavailableError(
                    "all loaded models are in use; try again later, or raise "
                    "REGARD_MAX_LOADED_MODELS or REGARD_MAX_LOADED_BYTES",
                    1,
                )

    def _has_room(self, files: AnyFiles) -> bool:
        settings = self.settings
        loaded = self.files.names & self.on_demand.keys()
        if not loaded:
            return True
        if settings.max_loaded_models and len(loaded) >= settings.max_loaded_models:
            return False
        resident = self.supervisor.resident_models()
        size = sum(each.memory_bytes for name in loaded for each in resident.get(name, ())[:1])
        limit = settings.max_loaded_bytes
        added = files.num_bytes if isinstance(files, ModelFiles | EmbeddingFiles) else 0
        return not limit or size + added <= limit

    def _least_used(self, kept: Sequence[str]) -> str | None:
        """Returns an idle model on demand.

        A model is left to a request that has just waited for it, or for another model with it.
        """
        now, found = time.perf_counter(), []
        for name in self.files.names & self.on_demand.keys():
            used, needed = self.supervisor.scheduler.last_use(name), self.needed_at[name]
            is_kept = used is not None and used < needed and now < needed + FIRST_USE_SECONDS
            if used is not None and not is_kept and name not in kept:
                found.append((max(used, needed), name))
        return min(found)[1] if found else None

    def cancel(self) -> None:
        for task in self.tasks:
            task.cancel()

    async def wait(self) -> None:
        await asyncio.gather(*self.tasks, return_exceptions=True)

    def _check_idle(self, name: str) -> None:
        state = self.states.get(name, "failed")
        if state != "failed":
            raise ConflictError(f"{name} is {state} just now; GET /v1/models shows its state")

    async def _within_request(
        self, work: Coroutine[None, None, None], done: str, pending: str
    ) -> str:
        task = self._start(work)
        ended, _ = await asyncio.wait({task}, timeout=self.settings.request_timeout_seconds)
        if not ended:
            return pending
        task.result()
        return done

    def _start(self, work: Coroutine[None, None, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work)
        self.tasks.add(task)
        task.add_done_callback(self._end)
        return task

    def _end(self, task: asyncio.Task[None]) -> None:
        self.tasks.discard(task)
        if not task.cancelled():
            task.exception()  # marks the error as seen; the request or the log has it

    async def _load(self, name: str, source: str, kept: Sequence[str] | None = None) -> None:
        """Loads a model; `kept` is None if an administrator loads it."""
        loads = self.supervisor.metrics.model_loads
        try:
            files, placements = await self._find(name, source, kept is not None)
            async with self.turn:
                if kept is not None:
                    await self._make_room(files, kept)
                await self._load_alone(name, files, placements)
        except ServiceError as error:
            loads.labels("failed").inc()
            logger.warning("%s was not loaded: %s", name, error)
            self._fail(name, error.message)
            raise
        except Exception as error:
            loads.labels("failed").inc()
            logger.exception("%s was not loaded", name)
            message = f"{name} cannot be loaded: {type(error).__name__}"
            self._fail(name, message)
            raise InternalError(message) from error
        self.states.pop(name, None)
        self.needed_at[name] = time.perf_counter()
        loads.labels("loaded").inc()
        logger.info("%s has been loaded", name)

    def _fail(self, name: str, reason: str) -> None:
        """Records a failed load, unless the reply of the request contains the error."""
        if name in self.states or name in self.overdue:
            self.states[name], self.failures[name] = "failed", reason

    async def _find(self, name: str, source: str, is_listed: bool) -> tuple[AnyFiles, Placements]:
        """Finds a model without the lock `turn`, so a hanging disk does not delay other changes."""
        try:
            search = find_listed if is_listed else find
            return await run_abandonable(partial(search, name, source, self.settings), LOAD_SECONDS)
        except BaseException as error:
            self.states.pop(name, None)  # no state remains, unless `_fail` records the failure
            if isinstance(error, TimeoutError):
                raise too_slow(name) from error
            raise

    async def _load_alone(self, name: str, files: AnyFiles, placements: Placements) -> None:
        try:
            await asyncio.wait_for(self.supervisor.load(files, placements), LOAD_SECONDS)
        except TimeoutError as error:
            raise too_slow(name) from error
        except (LoadRefusedError, WorkerLostError) as error:
            raise refusal(name, error) from error
        kinds = self.kinds_of(files)
        self.supervisor.metrics.add_model(name, kinds)
        self.supervisor.scheduler.add_model(name, kinds)
        self.files = self.files.with_model(files, {})
        try:
            await self.announce(self.files)
        except Exception as error:
            await self._remove(name)
            self.states[name] = "failed"
            if not isinstance(error, ModelError):
                raise
            # The files have changed since `find` read them.
            raise InvalidRequestError(
                f"{name} cannot be loaded: {error}", param="source"
            ) from error

    async def _unload(self, name: str) -> None:
        async with self.turn:
            await self._unload_alone(name)

    async def _unload_alone(self, name: str) -> None:
        try:
            await self._remove(name)
        except Exception:
            logger.exception("%s was not unloaded cleanly", name)
            raise
        finally:
            # The state may be missing: if a restarted worker failed to load the model while `_load`
            # still announced it, `_load` has deleted the state.
            self.states.pop(name, None)
        logger.info("%s has been unloaded", name)

    async def _remove(self, name: str) -> None:
        self.files = self.files.without(name)
        try:
            await self.announce(self.files)
        finally:
            await self.supervisor.unload(name)

    def _lose(self, name: str) -> None:
        if name in self.files.names and self.states.get(name) != "unloading":
            self.states[name] = "unloading"
            self._start(self._unload(name))


def find_listed(name: str, reference: str, settings: Settings) -> tuple[AnyFiles, Placements]:
    """Finds a model of REGARD_MODELS, and pulls it first if REGARD_PULL is set."""
    if settings.pull:
        from service.models.registry.download import HttpClient  # takes 0.2 s
        from service.models.registry.pull import Puller

        cache = ModelCache.at(settings.model_cache)
        for entry in read_entries([reference]):
            if missing_files(entry, cache):
                try:
                    Puller(cache, settings, HttpClient()).pull(entry)
                except RegistryError as error:
                    raise UnavailableError(f"{name} cannot be fetched: {error}", 60) from error
    files, placements = find(name, reference, settings.model_copy(update={"models_root": ""}))
    return files, {**settings.placements, **placements}


def find(name: str, source: str, settings: Settings) -> tuple[AnyFiles, Placements]:
    """Finds the model `name` among the models of a reference, and checks its files on disk."""
    try:
        check_root([source], name, settings.models_root)
        located = locate([source], ModelCache.at(settings.model_cache), settings.offline)
        named = [str(each.entry) for each in located if not each.record]
        check_root(named, name, settings.models_root)
        found = [files for each in located for files in find_all(each.place)]
        for files in found:
            if isinstance(files, RemoteFiles):
                raise InvalidRequestError(
                    f"{name} is a remote model; name it in REGARD_MODELS", param="source"
                )
            if files.name == name:
                load_served(files)
                _ = files.revision  # computed now, so that it never blocks the event loop
                return files, placements_of(located)
    except (ModelError, RegistryError) as error:
        raise InvalidRequestError(f"{name} cannot be loaded: {error}", param="source") from error
    except OSError as error:  # such as a path that is too long, or a file without read permission
        reason = f"{source[:SHOWN_CHARS]} cannot be read: {error.strerror}"
        raise InvalidRequestError(f"{name} cannot be loaded: {reason}", param="source") from error
    names = ", ".join(files.name for files in found)
    raise InvalidRequestError(
        f"{source} has no model {name}; it has {names}. Put one of these in POST /v1/models/NAME",
        param="source",
    )


def too_slow(name: str) -> ServiceError:
    return UnavailableError(
        f"{name} was not loaded within {LOAD_SECONDS:.0f} s; check the disk of its files", 60
    )


def check_root(places: Sequence[str], name: str, root: str) -> None:
    """Refuses folders and manifests outside the folder `root`, unless it is ""."""
    folder = Path(root).expanduser().resolve()
    for place in places if root else ():
        is_registry = place.startswith(tuple(source for source in Source if source))
        if not (is_registry or _is_inside(place, folder)):
            raise InvalidRequestError(
                f"{name} cannot be loaded: its folder or manifest is outside the folder "
                "REGARD_MODELS_ROOT; move it into that folder",
                param="source",
            )


def _is_inside(place: str, folder: Path) -> bool:
    try:
        return Path(place).resolve().is_relative_to(folder)
    except (RuntimeError, ValueError):  # links that form a loop, or a null byte
        return False


def refusal(name: str, error: LoadRefusedError | WorkerLostError) -> ServiceError:
    if isinstance(error, WorkerLostError):
        return UnavailableError(f"{name} was not loaded, because a worker died; try again", 1)
    failed = error.failed
    if failed.is_out_of_memory:
        return ConflictError(f"there is no memory left for {name}; unload another model first")
    if failed.error:
        return InternalError(f"{name} cannot be loaded: {failed.error}; the log says more")
    return InvalidRequestError(f"{failed.message}", param="source")


async def run_abandonable(function: Callable[[], T], seconds: float) -> T:
    """Returns the result of a function that runs in a thread of its own.

    After a timeout or a cancellation, the thread keeps running. The process does not wait for it,
    as it would for a thread of `asyncio.to_thread`.
    """
    future: Future[T] = Future()
    future.set_running_or_notify_cancel()  # now it cannot be cancelled, so its result can be set

    def work() -> None:
        try:
            future.set_result(function())
        except Exception as error:
            future.set_exception(error)

    threading.Thread(target=work, daemon=True).start()
    return await asyncio.wait_for(asyncio.wrap_future(future), seconds)
