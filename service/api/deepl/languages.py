"""The lists of languages of DeepL's API, versions 2 and 3."""

from typing import Any, Literal

from fastapi import APIRouter
from pydantic import BaseModel, Field

from service.api.context import HttpContext, Services
from service.api.deepl.errors import DEEPL_ERRORS
from service.api.deepl.schemas import KeyOnly
from service.api.request.handlers import route
from service.api.request.parameters import FORM, JSON
from service.models.catalog import Catalog
from service.text.language_codes import base_language, display_name, match_language, normalize_code

router = APIRouter(tags=["deepl"], responses=DEEPL_ERRORS)

REGIONS = {"en": ("en-GB", "en-US"), "pt": ("pt-BR", "pt-PT")}
"""Target languages that DeepL lists by regions; its clients refuse the plain codes."""


class LanguagesRequest(KeyOnly):
    type: Literal["source", "target"] = Field(
        "source", description="Which languages to list: `source` or `target`."
    )


class ResourceRequest(KeyOnly):
    resource: Literal[
        "translate_text",
        "translate_document",
        "glossary",
        "voice",
        "write",
        "style_rules",
        "translation_memory",
    ] = Field(
        description="For what the languages are. No language is listed for a service of DeepL that "
        "the server does not have."
    )


class DeepLLanguage(BaseModel):
    language: str = Field(description="Language code in upper case.")
    name: str = Field(description="Name in English.")
    supports_formality: bool | None = Field(
        None, description="Always false; present for target languages."
    )


LANGUAGES = "/v2/languages", list[DeepLLanguage]


@route(router.get, *LANGUAGES, operation_id="deepl_languages_get")
@route(router.post, *LANGUAGES, JSON, FORM, operation_id="deepl_languages_post")
async def languages(context: HttpContext, body: LanguagesRequest) -> Any:
    """Lists the source or the target languages.

    DeepL's Python client sends the parameters as a form, even with GET.
    """
    if body.type == "source":
        return [language_body(code) for code in source_codes(context.services.catalog)]
    targets = target_codes(context.services.catalog)
    return [{**language_body(code), "supports_formality": False} for code in targets]


def language_body(code: str) -> dict[str, Any]:
    return {"language": code, "name": display_name(code)}


def source_codes(catalog: Catalog) -> list[str]:
    return sorted({source_code(language, catalog) for language in catalog.offers()})


def target_codes(catalog: Catalog) -> list[str]:
    # `sources` includes the target itself. If the target is the only source, no other language
    # is translated to the target.
    targets = [each for each in catalog.languages if len(catalog.sources(each)) > 1]
    return sorted({code.upper() for each in targets for code in REGIONS.get(each, (each,))})


def source_code(language: str, catalog: Catalog) -> str:
    """Returns DeepL's code: without region or script, unless that names another language."""
    short = language.partition("-")[0]
    is_same = match_language(short, catalog.languages) == language
    return (short if is_same else language).upper()


NEEDS_SOURCE = {"needs_source_support": True}
NEEDS_BOTH = {**NEEDS_SOURCE, "needs_target_support": True}

RESOURCES: dict[str, dict[str, dict[str, bool]]] = {
    "translate_text": {
        "auto_detection": NEEDS_SOURCE,
        "glossary": NEEDS_BOTH,
        "tag_handling": NEEDS_BOTH,
    },
    "translate_document": {"auto_detection": NEEDS_SOURCE, "glossary": NEEDS_BOTH},
    "glossary": {},
}
"""The resources of version 3 that the server has, with the features of each."""


class LanguageFeature(BaseModel):
    status: str = Field(description="Always `stable`.")


class ResourceLanguage(BaseModel):
    lang: str = Field(description="Language code, such as `pt` or `pt-BR`.")
    name: str = Field(description="Name in English.")
    usable_as_source: bool
    usable_as_target: bool
    status: str = Field(description="Always `stable`.")
    features: dict[str, LanguageFeature] = Field(description="The features of the language.")


class ResourceFeature(BaseModel):
    """A feature, and the languages of a pair that must have it. An absent member means false."""

    name: str
    needs_source_support: bool | None = None
    needs_target_support: bool | None = None


class LanguageResource(BaseModel):
    name: str
    features: list[ResourceFeature]


@route(router.get, "/v3/languages", list[ResourceLanguage])
async def resource_languages(context: HttpContext, body: ResourceRequest) -> Any:
    """Lists the languages of a resource, with their features."""
    if body.resource not in resources_of(context.services):
        return []
    features = RESOURCES[body.resource]
    usable = usable_codes(context.services.catalog, has_regions=body.resource != "glossary")
    return [
        {
            "lang": code,
            "name": display_name(code),
            "usable_as_source": is_source,
            "usable_as_target": is_target,
            "status": "stable",
            "features": {
                name: {"status": "stable"}
                for name, needs in features.items()
                if is_source or needs != NEEDS_SOURCE
            },
        }
        for code, (is_source, is_target) in sorted(usable.items())
    ]


@route(router.get, "/v3/languages/resources", list[LanguageResource])
async def language_resources(context: HttpContext, _body: KeyOnly) -> Any:
    """Lists the values of `resource` for which the server has languages."""
    return [
        {"name": each, "features": [{"name": f, **RESOURCES[each][f]} for f in RESOURCES[each]]}
        for each in resources_of(context.services)
    ]


def resources_of(services: Services) -> list[str]:
    return [each for each in RESOURCES if services.documents or each != "translate_document"]


def usable_codes(catalog: Catalog, *, has_regions: bool) -> dict[str, tuple[bool, bool]]:
    """Maps each code to whether it can be a source, and whether it can be a target."""
    found: dict[str, tuple[bool, bool]] = {}
    for language in catalog.languages:
        usable = language in catalog.offers(), len(catalog.sources(language)) > 1
        codes = {base_language(language): usable}
        if has_regions:
            codes = dict.fromkeys(REGIONS.get(language, (language,)), (False, usable[1]))
            codes[normalize_code(source_code(language, catalog))] = usable
        for code, (is_source, is_target) in codes.items():
            old = found.get(code, (False, False))
            found[code] = is_source or old[0], is_target or old[1]
    return {code: usable for code, usable in found.items() if any(usable)}
