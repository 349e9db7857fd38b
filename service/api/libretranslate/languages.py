"""GET /languages and GET /frontend/settings: LibreTranslate's clients request these first."""

from typing import Annotated, Any

from fastapi import APIRouter, Header, Request
from starlette.responses import Response

from service.api.context import services_of
from service.api.errors import ErrorBody
from service.api.libretranslate.schemas import (
    DefaultLanguages,
    FrontendSettings,
    Language,
    LanguageChoice,
    TranslateFileRequest,
    TranslateRequest,
)
from service.api.request.translation import find_languages
from service.api.responses import JSONResponse
from service.documents.formats import FORMATS
from service.errors import InvalidRequestError
from service.models.catalog import PIVOT, Catalog
from service.text.detection import Detection
from service.text.language_codes import display_name

router = APIRouter(tags=["languages"])

AcceptLanguage = Annotated[str | None, Header(max_length=1024)]


@router.get("/languages", response_model=list[Language], responses={"4XX": {"model": ErrorBody}})
async def languages(request: Request, accept_language: AcceptLanguage = None) -> Response:
    """Lists the source languages, and the target languages of each."""
    return JSONResponse(
        [
            {"code": code, "name": display_name(code, accept_language), "targets": targets}
            for code, targets in services_of(request).catalog.offers().items()
        ]
    )


@router.get("/frontend/settings", responses={"4XX": {"model": ErrorBody}})
async def frontend_settings(
    request: Request, accept_language: AcceptLanguage = None
) -> FrontendSettings:
    """Returns the settings that clients need for their forms. A limit of -1 means no limit."""
    services = services_of(request)
    target = default_target(services.catalog)
    needs_key = services.keys.is_required
    return FrontendSettings(
        charLimit=services.settings.max_text_chars or -1,
        frontendTimeout=500,
        apiKeys=needs_key,
        keyRequired=needs_key,
        suggestions=services.settings.suggestions,
        filesTranslation=services.settings.files,
        supportedFilesFormat=[*FORMATS] if services.settings.files else [],
        language=DefaultLanguages(
            source=LanguageChoice(code="auto", name="Auto Detect"),
            target=LanguageChoice(code=target, name=display_name(target, accept_language)),
        ),
    )


def find(catalog: Catalog, source: str, target: str) -> tuple[str | None, str]:
    """Returns the languages of the catalog that a request names as source and target.

    The source is None for `auto`.

    Raises:
        InvalidRequestError: A code is empty.
        UnsupportedLanguageError: The server has no such language or pair.
    """
    code = None if source.strip().lower() == "auto" else source
    return find_languages(catalog, ("source", code), ("target", target))


def glossaries_of(body: TranslateRequest | TranslateFileRequest, source: str | None) -> list[str]:
    """Returns a list with the id of the request's glossary, or an empty list.

    Raises:
        InvalidRequestError: The request has a glossary and no source language.
    """
    if body.glossary and source is None:
        raise InvalidRequestError(
            "Invalid request: a glossary needs the source language; name it in place of auto"
        )
    return [body.glossary] if body.glossary else []


def default_target(catalog: Catalog) -> str:
    """Returns the target language that a form offers first.

    This is the target of the first single-pair model whose target is a language of the server. If
    there is no such model, it is the server's last language. On a server without translation
    models, it is English.
    """
    targets = [model.files.target for model in catalog.models.values() if model.files.target]
    offered = [target for target in targets if target in catalog.languages]
    return [*offered, *reversed(catalog.languages), PIVOT][0]


def detection_body(detection: Detection) -> dict[str, Any]:
    """Returns the part of a response body that reports one detected language."""
    body = {"confidence": detection.confidence, "language": detection.language}
    return body | ({"unserved": detection.unserved} if detection.unserved else {})
