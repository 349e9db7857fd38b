"""POST /suggest: stores a better translation, if REGARD_SUGGESTIONS is true."""

from fastapi import APIRouter, Request
from starlette.responses import Response

from service.api import error_texts
from service.api.context import services_of
from service.api.errors import ERRORS
from service.api.libretranslate import languages
from service.api.libretranslate.schemas import SuggestRequest, SuggestResponse
from service.api.request.parameters import FORM, JSON, request_body
from service.api.request.reading import read_parameters
from service.api.request.translation import missing
from service.api.responses import JSONResponse
from service.errors import ForbiddenError
from service.state.suggestions import Suggestion

router = APIRouter(tags=["translation"])


@router.post(
    "/suggest",
    response_model=SuggestResponse,
    responses=ERRORS,
    openapi_extra=request_body(SuggestRequest, JSON, FORM),
)
async def suggest(request: Request) -> Response:
    """Stores a suggested translation, which the operator can use to improve the models."""
    services = services_of(request)
    if services.suggestions is None:
        text, details = error_texts.SUGGESTIONS_DISABLED
        raise ForbiddenError(text, details=details)
    body = await read_parameters(request, SuggestRequest)
    for name, text in (("q", body.q), ("s", body.s)):
        if not text.strip():
            raise missing(name)
    source, target = languages.find(services.catalog, body.source, body.target)
    suggestion = Suggestion(body.q, body.s, source or "auto", target)
    await services.suggestions.add(suggestion)
    return JSONResponse({"success": True})
