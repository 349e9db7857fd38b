"""The models that an HTTP process serves, and their replacement while requests are running."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from service.metrics.figures import NO_MODEL
from service.models.catalog import Catalog
from service.tasks.context import RequestContext
from service.tasks.embedding.embedder import Embedder
from service.text.detection import LanguageDetector
from service.workers.messages import ModelSet

CHECK_SECONDS = 0.02  # time between two checks whether requests have ended


class OpenRequests:
    """Registers running requests, so that unloading a model can wait for its requests."""

    def __init__(self) -> None:
        self.contexts: set[RequestContext] = set()
        # The bound methods of the set take less time than functions.
        self.begin, self.end = self.contexts.add, self.contexts.discard

    def count(self) -> int:
        return len(self.contexts)

    async def drained(self, models: set[str]) -> None:
        """Waits for the end of the running requests of models, and of requests with NO_MODEL."""
        contexts = {each for each in self.contexts if each.model in models | {NO_MODEL}}
        while contexts & self.contexts:
            await asyncio.sleep(CHECK_SECONDS)


class HasCatalog(Protocol):
    catalog: Catalog


@dataclass(eq=False)
class ServedModels:
    """The models that the routes of this process serve; `users` are objects with the catalog."""

    catalog: Catalog
    users: Sequence[HasCatalog]
    detector: LanguageDetector
    embedder: Embedder
    timeout_seconds: float
    requests: OpenRequests = field(default_factory=OpenRequests)
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)

    def replace(self, catalog: Catalog) -> None:
        users: tuple[HasCatalog, ...] = (self, self.embedder, *self.users)
        for each in users:
            each.catalog = catalog
        self.detector.choose(catalog.languages)
        self.embedder.refresh()

    async def change(self, files: ModelSet) -> None:
        """Replaces the served models, and waits for the running requests of removed models."""
        async with self.turn:
            removed = self.catalog.files.names - files.names
            catalog = await asyncio.to_thread(self.catalog.changed_to, files)
            if catalog.languages != self.catalog.languages:
                # The detector takes about 0.4 s to read the data of each new language.
                await asyncio.to_thread(LanguageDetector(catalog.languages).preload)
            self.replace(catalog)
        if removed:
            try:
                await asyncio.wait_for(self.requests.drained(removed), self.timeout_seconds)
            except TimeoutError:  # a slow client keeps a request open
                return
