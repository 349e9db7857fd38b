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
from service.settings import Settings
from service.state.database import Database
from service.state.glossaries import GlossaryStore
from service.state.quota import Quota
from service.state.suggestions import SuggestionStore
from service.tasks.attention.texts import TextInspector
from service.tasks.attention.translations import TranslationInspector
from service.tasks.backend import Backend
from service.tasks.context import RequestContext
from service.tasks.documents import DocumentTranslator
from service.tasks.embedding.embedder import Embedder
from service.tasks.translation.translator import Translator


@dataclass(frozen=True, slots=True)
class Services:
    """The objects that routes work with.

    Attributes:
        backend: The parts of the server that all processes share.
        documents: Translates documents; None without REGARD_FILES.
        state: The file of quota, glossaries and suggestions.
        suggestions: Stores better translations that users send; None without REGARD_SUGGESTIONS.
        endpoints: Calls remote models.
        started: Start of the server, in Unix seconds.
    """

    settings: Settings
    catalog: Catalog
    backend: Backend
    translator: Translator
    inspector: TranslationInspector
    text_inspector: TextInspector
    embedder: Embedder
    documents: DocumentTranslator | None
    keys: KeyRing
    state: Database
    quota: Quota
    glossaries: GlossaryStore
    suggestions: SuggestionStore | None
    served_models: ServedModels
    endpoints: Endpoints
    started: int


@dataclass(slots=True, eq=False)
class HttpContext(RequestContext):
    """The context of a request that came over HTTP. It is `context` in the scope's `state`.

    Attributes:
        dialect: Decides the shape of errors and the scope that a key needs.
        headers: The first value of each header; names are in lower case.
        connection: Connection of the request; None if an ASGI client in this process sent it.
        is_admitted: Whether the turn of the event loop had time left for the client; None until
            the request is counted.
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
