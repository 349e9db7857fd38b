"""The objects that routes work with, and the context of a request."""

from dataclasses import dataclass, field

from starlette.requests import Request
from starlette.types import Scope

from service.api.dialect import OWN, Dialect
from service.api.keys import KeyRing
from service.api.served_models import ServedModels
from service.http_server.byte_budget import Reservation
from service.http_server.pool import ClientConnection
from service.models.catalog import Catalog
from service.remote.endpoint import Endpoints
from service.remote.routing import admitter_of
from service.settings import Settings
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


@dataclass(eq=False)
class Services:
    """The objects that routes work with.

    Attributes:
        started: Start of the server, in Unix seconds.
        folder: Folder of the translated documents; "" without REGARD_FILES.
    """

    settings: Settings
    catalog: Catalog
    backend: Backend
    state: Database
    started: int
    folder: str = ""

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
        self.documents: DocumentTranslator | None = None
        if self.folder:
            documents = self.translator, self.quota, settings, self.folder
            self.documents = DocumentTranslator(*documents)
        users = (self, self.translator, self.inspector)
        seconds = settings.request_timeout_seconds
        self.served_models = ServedModels(catalog, users, detector, self.embedder, seconds)


@dataclass(slots=True, eq=False)
class HttpContext(RequestContext):
    """The context of a request that came over HTTP. It is `context` in the scope's `state`.

    Attributes:
        dialect: Decides the shape of errors and the scope that a key needs.
        headers: The first value of each header; names are in lower case.
        connection: Connection of the request; None if an ASGI client in this process sent it.
        is_admitted: Whether LoopLoad has accepted the request; None until it is counted.
        reservation: The bytes of a large body in the budget of the HTTP process.
    """

    dialect: Dialect = OWN
    headers: dict[bytes, bytes] = field(default_factory=dict)
    connection: ClientConnection | None = None
    is_admitted: bool | None = None
    reservation: Reservation | None = None


def services_of(request: Request) -> Services:
    found: Services = request.scope["app"].services
    return found


def context_in(scope: Scope) -> HttpContext:
    found: HttpContext = scope["state"]["context"]
    return found


def context_of(request: Request) -> HttpContext:
    found: HttpContext = request.scope["state"]["context"]
    return found
