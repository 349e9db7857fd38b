"""Loading and unloading models while the server runs, in the process that owns the workers.

One model after the other. A model is first in all workers, then in the queues, and then known to
whoever answers HTTP; it goes the other way round.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from dataclasses import dataclass

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
)
from service.models.catalog import Catalog, find_all
from service.models.model_set import ModelSet
from service.models.registry.cache import ModelCache
from service.models.registry.describe import placements_of
from service.models.registry.errors import RegistryError
from service.models.registry.locate import locate
from service.models.state import ModelState
from service.settings import Settings
from service.workers.supervisor import LoadRefusedError, Supervisor, WorkerLostError

logger = logging.getLogger("regard.models")

Announce = Callable[[ModelSet], Awaitable[None]]
"""Tells whoever answers HTTP what is served from now on; returns when all of them go by it, and
when the requests that one of them had begun for a model that is gone have ended."""


@dataclass(frozen=True, slots=True)
class Found:
    """A model on disk that may be loaded.

    Attributes:
        files: The model's.
        placements: Device and dtype by folder, where a manifest gives it some of its own.
    """

    files: ModelFiles | EmbeddingFiles
    placements: Mapping[str, tuple[str, str]]


async def nobody(_files: ModelSet) -> None:
    """The Announce of who has nobody to tell."""


class ModelChanges:
    """Changes which models are served.

    Args:
        catalog: What is served at first; it is kept to what the workers have.
        settings: Where models are looked for, and how long a request waits.
        supervisor: Of the workers.

    Attributes:
        states: Of models that are neither served nor unknown.
        failures: Why those could not be loaded whose state is `failed`.
        unanswered: Models whose requests were answered before it was known what became of them.
    """

    def __init__(self, catalog: Catalog, settings: Settings, supervisor: Supervisor) -> None:
        self.catalog = catalog
        self.files = catalog.files
        self.settings = settings
        self.supervisor = supervisor
        self.announce: Announce = nobody
        self.states: dict[str, ModelState] = {}
        self.failures: dict[str, str] = {}
        self.unanswered: set[str] = set()
        self.turn = asyncio.Lock()
        self.tasks: set[asyncio.Task[None]] = set()
        supervisor.on_lost_model = self._lose

    async def load(self, name: str, source: str) -> str:
        """Loads a model; gives `ready`, or `loading` where that takes longer than a request may.

        Args:
            name: Of one of the models behind the reference.
            source: A reference, as in REGARD_MODELS.

        Raises:
            ServiceError: It cannot be loaded.
        """
        self._check_idle(name)
        if name in self.files.names:
            raise ConflictError(
                f"{name} is loaded already; unload it first: DELETE /v1/models/{name}"
            )
        if not self.supervisor.is_ready:
            raise UnavailableError("the models are loading; try again soon", 1)
        self.states[name] = "loading"
        self.failures.pop(name, None)
        self.unanswered.discard(name)
        state = await self._within_request(self._load(name, source), "ready", "loading")
        if state == "loading":
            self.unanswered.add(name)
        return state

    async def unload(self, name: str) -> str:
        """Unloads a model; gives `unloaded`, or `unloading` where its requests take longer.

        Raises:
            NotFoundError: It is not loaded.
            ConflictError: It is just being loaded or unloaded.
        """
        self._check_idle(name)
        if self.states.get(name) == "failed":
            del self.states[name], self.failures[name]
            return "unloaded"
        if name not in self.files.names:
            there = ", ".join(sorted(self.files.names)) or "none"
            raise NotFoundError(f"there is no model {name}; there are: {there}", param="model")
        self.states[name] = "unloading"
        return await self._within_request(self._unload(name), "unloaded", "unloading")

    def cancel(self) -> None:
        """Begins to end what is under way."""
        for task in self.tasks:
            task.cancel()

    async def wait(self) -> None:
        """Returns when it has ended, which may take until the workers have."""
        await asyncio.gather(*self.tasks, return_exceptions=True)

    def _check_idle(self, name: str) -> None:
        state = self.states.get(name, "failed")
        if state != "failed":
            raise ConflictError(f"{name} is {state} just now; GET /v1/models tells how it goes")

    async def _within_request(self, work: Coroutine[None, None, None], done: str, late: str) -> str:
        """Does work, which goes on when the request that asked for it has ended."""
        task = asyncio.ensure_future(work)
        self.tasks.add(task)
        task.add_done_callback(self._end)
        ended, _ = await asyncio.wait({task}, timeout=self.settings.request_timeout_seconds)
        if not ended:
            return late
        task.result()
        return done

    def _end(self, task: asyncio.Task[None]) -> None:
        self.tasks.discard(task)
        if not task.cancelled():
            task.exception()  # it is told, or logged

    async def _load(self, name: str, source: str) -> None:
        try:
            async with self.turn:
                await self._load_alone(name, source)
        except ServiceError as error:
            logger.warning("%s was not loaded: %s", name, error)
            self._fail(name, error.message)
            raise
        except Exception as error:
            logger.exception("%s was not loaded", name)
            message = f"{name} cannot be loaded: {type(error).__name__}"
            self._fail(name, message)
            raise InternalError(message) from error
        del self.states[name]
        logger.info("%s has been loaded", name)

    def _fail(self, name: str, reason: str) -> None:
        """Keeps the reason of a model, and of what is none if whoever asked has not been told."""
        if name in self.states or name in self.unanswered:
            self.states[name], self.failures[name] = "failed", reason

    async def _load_alone(self, name: str, source: str) -> None:
        try:
            found = await asyncio.to_thread(find, name, source, self.settings)
        except BaseException:
            del self.states[name]  # it is no model
            raise
        try:
            await self.supervisor.load(found.files, found.placements)
        except (LoadRefusedError, WorkerLostError) as error:
            raise refusal(name, error) from error
        translates = isinstance(found.files, ModelFiles)
        self.supervisor.metrics.add_model(name, translates)
        self.supervisor.scheduler.add_model(name, translates)
        self.files = self.files.plus(found.files)
        try:
            await self._keep_to_files()
            await self.announce(self.files)
        except Exception as error:
            await self._remove(name)
            self.states[name] = "failed"
            if not isinstance(error, ModelError):
                raise
            # Its files are others than a moment ago.
            raise InvalidRequestError(
                f"{name} cannot be loaded: {error}", param="source"
            ) from error

    async def _unload(self, name: str) -> None:
        try:
            async with self.turn:
                await self._remove(name)
        finally:
            self.states.pop(name, None)  # none where it was lost while it was being announced
        logger.info("%s has been unloaded", name)

    async def _remove(self, name: str) -> None:
        self.files = self.files.without(name)
        await self.announce(self.files)
        await self._keep_to_files()
        await self.supervisor.unload(name)

    async def _keep_to_files(self) -> None:
        """Has the catalog be of what is served: sentences of two legs are taken on by it.

        Raises:
            CheckpointError: A file is damaged.
        """
        self.catalog.become(await asyncio.to_thread(self.catalog.changed_to, self.files))

    def _lose(self, name: str) -> None:
        """Unloads a model that a worker cannot load any more."""
        if name in self.files.names and self.states.get(name) != "unloading":
            self.states[name] = "unloading"
            task = asyncio.create_task(self._unload(name))
            self.tasks.add(task)
            task.add_done_callback(self._end)


def find(name: str, source: str, settings: Settings) -> Found:
    """A model behind a reference, on this disk; its small files are read, and its sums compared.

    Raises:
        InvalidRequestError: There is none of that name, or a file lacks or is damaged.
    """
    try:
        located = locate([source], ModelCache.at(settings.model_cache), settings.offline)
        found = [files for each in located for group in find_all(each.place) for files in group]
        for files in found:
            if files.name == name:
                Catalog([]).changed_to(ModelSet((), ()).plus(files))
                _ = files.revision  # computed here: it takes a while, and is remembered
                return Found(files, placements_of(located))
    except (ModelError, RegistryError) as error:
        raise InvalidRequestError(f"{name} cannot be loaded: {error}", param="source") from error
    except OSError as error:  # of a name that is too long, or a file that may not be read
        reason = f"{source[:SHOWN_CHARS]} cannot be read: {error.strerror}"
        raise InvalidRequestError(f"{name} cannot be loaded: {reason}", param="source") from error
    names = ", ".join(files.name for files in found)
    raise InvalidRequestError(
        f"{name} is not behind {source}; there is {names}: POST to /v1/models/ and that name",
        param="source",
    )


def refusal(name: str, error: LoadRefusedError | WorkerLostError) -> ServiceError:
    """What a client is told when the workers cannot load a model."""
    if isinstance(error, WorkerLostError):
        return UnavailableError(f"{name} was not loaded: a worker died; try again", 1)
    failed = error.failed
    if failed.is_out_of_memory:
        return ConflictError(f"there is no memory left for {name}; unload another model first")
    if failed.error:
        return InternalError(f"{name} cannot be loaded: {failed.error}; the log says more")
    return InvalidRequestError(f"{failed.message}", param="source")
