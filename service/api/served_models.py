"""What a process that answers HTTP knows of the models, and how that changes while it runs."""

import asyncio

from service.metrics.definitions import NO_MODEL
from service.models.catalog import Catalog
from service.tasks.context import RequestContext
from service.tasks.embedding import Embedder
from service.text.detection import LanguageDetector
from service.workers.model_set import ModelSet


class OpenRequests:
    """The requests under way, so that a model is not taken from under them."""

    def __init__(self) -> None:
        self.contexts: dict[int, RequestContext] = {}
        self.waiting: list[tuple[set[int], asyncio.Event]] = []

    def begin(self, context: RequestContext) -> None:
        """A request has come."""
        self.contexts[id(context)] = context

    def end(self, context: RequestContext) -> None:
        """It has been answered."""
        del self.contexts[id(context)]
        for keys, ended in self.waiting:
            keys.discard(id(context))
            if not keys:
                ended.set()

    async def drained(self, models: set[str]) -> None:
        """Waits for those to end that go to one of these models, or of which it is not known."""
        keys = {key for key, each in self.contexts.items() if each.model in models | {NO_MODEL}}
        if not keys:
            return
        waiting = keys, asyncio.Event()
        self.waiting.append(waiting)
        try:
            await waiting[1].wait()
        finally:
            self.waiting.remove(waiting)


class Offer:
    """What is served, for all that answers requests in this process.

    Args:
        catalog: Where models are looked up.
        detector: Of the catalog's languages.
        embedder: It has readers of its own.
        timeout_seconds: A request that has not ended by then is over its deadline.
    """

    def __init__(
        self,
        catalog: Catalog,
        detector: LanguageDetector,
        embedder: Embedder,
        timeout_seconds: float,
    ) -> None:
        self.catalog = catalog
        self.detector = detector
        self.embedder = embedder
        self.timeout_seconds = timeout_seconds
        self.requests = OpenRequests()
        self.turn = asyncio.Lock()

    async def change(self, files: ModelSet) -> None:
        """Goes by these from now on; returns when requests for what is gone have ended.

        Raises:
            CheckpointError: A file is damaged; then nothing has changed.
        """
        async with self.turn:
            gone = self.catalog.files.names - files.names
            catalog = await asyncio.to_thread(self.catalog.changed_to, files)
            if catalog.languages != self.catalog.languages:
                # Their models take a while to be read, 0.4 s each.
                await asyncio.to_thread(LanguageDetector(catalog.languages).preload)
            self.catalog.replace(catalog)
            self.detector.choose(catalog.languages)
            self.embedder.refresh()
        if gone:
            try:
                await asyncio.wait_for(self.requests.drained(gone), self.timeout_seconds)
            except TimeoutError:  # a client that is slow to send or to read
                return
