"""What routes ask for, as Annotated aliases."""

from dataclasses import dataclass
from typing import Annotated, cast

from fastapi import Depends, Request

from service.api.served_models import Offer
from service.models.catalog import Catalog
from service.settings import Settings
from service.tasks.attention.texts import TextInspector
from service.tasks.attention.translations import Inspector
from service.tasks.backend import Backend
from service.tasks.context import RequestContext
from service.tasks.embedding import Embedder
from service.tasks.translation import Translator


@dataclass(frozen=True, slots=True)
class Services:
    """What a route may use.

    Attributes:
        settings: How the server runs.
        catalog: What it serves.
        backend: What there is only once.
        translator: Text in, text out.
        inspector: Text in, attention out.
        text_inspector: The same of texts that are embedded.
        embedder: Text in, vector out.
        offer: What this process knows of the models, and how that changes.
        started: When, in Unix seconds.
    """

    settings: Settings
    catalog: Catalog
    backend: Backend
    translator: Translator
    inspector: Inspector
    text_inspector: TextInspector
    embedder: Embedder
    offer: Offer
    started: int


# Not waiting for anything, they are async all the same: FastAPI takes others to a thread.


async def get_services(request: Request) -> Services:
    """The parts of the server that this request came to."""
    return cast("Services", request.app.state.services)


async def get_context(request: Request) -> RequestContext:
    """What the middleware knows of this request."""
    return cast("RequestContext", request.state.context)


ServicesDep = Annotated[Services, Depends(get_services)]
ContextDep = Annotated[RequestContext, Depends(get_context)]
