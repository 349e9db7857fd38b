"""The objects that routes work with, and the functions that return them for a request."""

from dataclasses import dataclass
from typing import cast

from starlette.requests import Request

from service.api.access.key_ring import KeyRing
from service.api.served_models import ServedModels
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
from service.tasks.documents.translator import DocumentTranslator
from service.tasks.embedding.embedder import Embedder
from service.tasks.translation.translator import Translator


@dataclass(frozen=True, slots=True)
class Services:
    """The objects that routes work with.

    Attributes:
        settings: Settings of the server.
        catalog: The served models and their languages.
        backend: Interface to the parts of the server that all processes share: admission, device
            workers and metrics.
        translator: Translates texts.
        inspector: Computes the attention of translations.
        text_inspector: Computes the attention of texts that are embedded, not translated.
        embedder: Computes the vectors of texts.
        documents: Translates documents; None without REGARD_FILES.
        keys: Finds the API key of a request among the valid keys.
        state: The file of quota, glossaries and suggestions.
        quota: Counts the characters that each API key has translated.
        glossaries: Stores glossaries.
        suggestions: Stores better translations that users send; None without REGARD_SUGGESTIONS.
        served_models: Changes the served models of this process.
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


def services_of(request: Request) -> Services:
    """Returns the services of the application that received a request."""
    return cast("Services", request.app.state.services)


def context_of(request: Request) -> RequestContext:
    """Returns the context that the middleware has made for a request."""
    return cast("RequestContext", request.state.context)
