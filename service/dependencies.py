"""What routes ask for, as Annotated aliases."""

from dataclasses import dataclass
from typing import Annotated, cast

from fastapi import Depends, Request

from service.catalog import Catalog
from service.context import RequestContext
from service.inference import Translator
from service.metrics import Metrics
from service.settings import Settings
from service.supervisor import Supervisor


@dataclass(frozen=True, slots=True)
class Services:
    """Everything that one running server is made of."""

    settings: Settings
    catalog: Catalog
    metrics: Metrics
    translator: Translator
    supervisor: Supervisor
    started: int


def get_services(request: Request) -> Services:
    """The parts of the server that this request came to."""
    return cast("Services", request.app.state.services)


def get_context(request: Request) -> RequestContext:
    """What the middleware knows of this request."""
    return cast("RequestContext", request.state.context)


ServicesDep = Annotated[Services, Depends(get_services)]
ContextDep = Annotated[RequestContext, Depends(get_context)]
