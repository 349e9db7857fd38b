"""GET /languages and GET /frontend/settings: what LibreTranslate's clients ask first."""

from typing import Annotated

from fastapi import APIRouter, Header
from starlette.responses import Response

from service.api.libretranslate.schemas import (
    DefaultLanguages,
    ErrorBody,
    FrontendSettings,
    Language,
    LanguageChoice,
)
from service.api.responses import JSONReply
from service.api.services import ServicesDep
from service.models.catalog import PIVOT, Catalog
from service.text.language_codes import display_name

router = APIRouter(tags=["languages"])

AcceptLanguage = Annotated[str | None, Header(max_length=1024)]


@router.get("/languages", response_model=list[Language], responses={"4XX": {"model": ErrorBody}})
async def languages(services: ServicesDep, accept_language: AcceptLanguage = None) -> Response:
    """Every language that can be translated, and to what."""
    return JSONReply(
        [
            {"code": code, "name": display_name(code, accept_language), "targets": targets}
            for code, targets in services.catalog.offers().items()
        ]
    )


@router.get("/frontend/settings", responses={"4XX": {"model": ErrorBody}})
async def frontend_settings(
    services: ServicesDep, accept_language: AcceptLanguage = None
) -> FrontendSettings:
    """What a form may offer; no limit is -1, as in LibreTranslate."""
    target = default_target(services.catalog)
    return FrontendSettings(
        charLimit=-1,
        frontendTimeout=500,
        apiKeys=False,
        keyRequired=False,
        suggestions=False,
        filesTranslation=False,
        supportedFilesFormat=[],
        language=DefaultLanguages(
            source=LanguageChoice(code="auto", name="Auto Detect"),
            target=LanguageChoice(code=target, name=display_name(target, accept_language)),
        ),
    )


def default_target(catalog: Catalog) -> str:
    """What a form starts with: what the first model of one pair writes, or a language of many.

    A server that only embeds has none, and says English.
    """
    targets = [model.files.target for model in catalog.models.values() if model.files.target]
    offered = [target for target in targets if target in catalog.languages]
    return [*offered, *reversed(catalog.languages), PIVOT][0]
