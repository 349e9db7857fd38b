"""The objects that routes work with, and the context of a request."""

import asyncio
import gc
from contextlib import suppress
from dataclasses import dataclass, field

from starlette.requests import Request

from service.api.dialect import OWN, Dialect
from service.api.keys import KeyRing
from service.http_server.byte_budget import Reservation
from service.http_server.connection import Connection
from service.metrics.figures import NO_MODEL
from service.models.catalog import Catalog
from service.remote.endpoint import Endpoints
from service.remote.routing import admitter_of
from service.settings import Settings
from service.settings.keys import ApiKey
from service.state.database import Database
from service.state.glossaries import GlossaryStore
from service.state.quota import Quota
from service.state.suggestions import SuggestionStore
from service.tasks.attention.inspector import Inspector
from service.tasks.backend import Backend
from service.tasks.context import RequestContext
from service.tasks.documents import DocumentTranslator
from service.tasks.embedding.embedder import Embedder
from service.tasks.translation.translator import Translator
from service.text.detection import LanguageDetector
from service.workers.messages import ModelSet

CHECK_SECONDS = 0.02  # time between two checks whether requests have ended


class OpenRequests:
    """Registers running requests, so that unloading a model can wait for its requests."""

    def __init__(self) -> None:
        self.contexts: set[RequestContext] = set()
        self.batches: set[RequestContext] = set()  # parts of documents that are being translated
        # The bound methods of the set take less time than functions.
        self.begin, self.end = self.contexts.add, self.contexts.discard

    def count(self) -> int:
        return len(self.contexts)

    async def drained(self, models: set[str]) -> None:
        users = models | {NO_MODEL}
        contexts = self.contexts | self.batches
        while any(each.model in users and not each.is_waiting for each in contexts):
            await asyncio.sleep(CHECK_SECONDS)
            contexts &= self.contexts | self.batches


@dataclass(eq=False)
class Services:
    settings: Settings
    catalog: Catalog
    backend: Backend
    state: Database
    started: int  # in Unix seconds
    folder: str = ""  # of the translated documents; "" without REGARD_FILES

    def __post_init__(self) -> None:
        settings, catalog, backend, state = self.settings, self.catalog, self.backend, self.state
        self.keys = KeyRing(settings)
        self.quota = Quota(state, settings.monthly_characters)
        self.glossaries = GlossaryStore(state)
        self.suggestions = SuggestionStore(state) if settings.suggestions else None
        detector = LanguageDetector(catalog.languages)
        detector.preload()
        self.endpoints = Endpoints(settings, backend.recorder)
        admitter = admitter_of(catalog, backend, self.endpoints)
        self.translator = Translator(catalog, admitter, detector, settings)
        self.inspector = Inspector(catalog, backend, detector, settings)
        self.embedder = Embedder(catalog, backend, settings)
        self.requests = OpenRequests()
        self.documents: DocumentTranslator | None = None
        if self.folder:
            documents = self.translator, self.quota, settings, self.folder, self.requests.batches
            self.documents = DocumentTranslator(*documents)
        self.changing = asyncio.Lock()

    def replace_catalog(self, catalog: Catalog) -> None:
        self.catalog = self.translator.catalog = catalog
        self.inspector.catalog = self.embedder.catalog = catalog
        self.inspector.detector.choose(catalog.languages)
        self.embedder.refresh()

    async def change_models(self, files: ModelSet) -> None:
        """Replaces the served models, and waits for the running requests of removed models."""
        async with self.changing:
            removed = self.catalog.files.names - files.names
            catalog = await asyncio.to_thread(self.catalog.changed_to, files)
            if catalog.languages != self.catalog.languages:
                # The detector takes about 0.4 s to read the data of each new language.
                await asyncio.to_thread(LanguageDetector(catalog.languages).preload)
            self.replace_catalog(catalog)
        if removed:
            with suppress(TimeoutError):  # a slow client keeps a request open
                seconds = self.settings.request_timeout_seconds
                await asyncio.wait_for(self.requests.drained(removed), seconds)
            # The texts of failed requests and their sentences refer to each other, so only the
            # collector frees the vocabularies of their models.
            gc.collect()


@dataclass(slots=True, eq=False)
class HttpContext(RequestContext):
    """The context of a request that came over HTTP. It is `context` in the scope's `state`."""

    services: Services = field(init=False)  # the middleware sets it
    dialect: Dialect = OWN  # decides the shape of errors and the scope that a key needs
    key: ApiKey | None = None  # None on a server without API keys, and before the key is checked
    # First value of each header; names are in lower case.
    headers: dict[bytes, bytes] = field(default_factory=dict)
    connection: Connection | None = None  # None if an ASGI client in this process sent it
    # Whether LoopLoad has accepted the request; None until it is counted.
    is_admitted: bool | None = None
    reservation: Reservation | None = None  # bytes of a large body in the budget of the process


def context_of(request: Request) -> HttpContext:
    found: HttpContext = request.scope["state"]["context"]
    return found
