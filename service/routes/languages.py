"""GET /languages and GET /frontend/settings: what LibreTranslate's clients ask first."""

from typing import Annotated

from fastapi import APIRouter, Header

from service.dependencies import ServicesDep
from service.languages import display_name
from service.schemas import (
    DefaultLanguages,
    ErrorBody,
    FrontendSettings,
    Language,
    LanguageChoice,
)

router = APIRouter(tags=["languages"])

AcceptLanguage = Annotated[str | None, Header(max_length=1024)]


@router.get("/languages", responses={"4XX": {"model": ErrorBody}})
async def languages(
    services: ServicesDep, accept_language: AcceptLanguage = None
) -> list[Language]:
    """Every language that can be translated, and to what."""
    catalog = services.catalog
    return [
        Language(code=code, name=display_name(code, accept_language), targets=catalog.targets(code))
        for code in catalog.languages
        if len(catalog.targets(code)) > 1
    ]


@router.get("/frontend/settings", responses={"4XX": {"model": ErrorBody}})
async def frontend_settings(
    services: ServicesDep, accept_language: AcceptLanguage = None
) -> FrontendSettings:
    """What a form may offer; no limit is -1, as in LibreTranslate."""
    targets = (model.files.target for model in services.catalog.models.values())
    target = next(targets, "en")  # nothing is translated while no model is loaded
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
