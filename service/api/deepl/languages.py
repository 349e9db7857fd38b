"""GET and POST /v2/languages, and the language codes in DeepL's responses."""

from typing import Any, Literal

from fastapi import APIRouter, Request
from pydantic import BaseModel, Field
from starlette.responses import Response

from service.api.context import services_of
from service.api.deepl.errors import DEEPL_ERRORS
from service.api.request.parameters import FORM, JSON, Parameters, request_body
from service.api.request.reading import read_parameters
from service.api.responses import JSONResponse
from service.models.catalog import Catalog
from service.text.language_codes import display_name, match_language

router = APIRouter(tags=["deepl"])

REGIONS = {"en": ("en-GB", "en-US"), "pt": ("pt-BR", "pt-PT")}
"""Maps a target language to codes with a region, which DeepL lists in place of the plain code.

DeepL's clients refuse `en` and `pt` as target languages. The same model serves all regions of a
language.
"""


class LanguagesRequest(Parameters):
    """The parameters of `GET` or `POST /v2/languages`, in the query, as JSON or as a form."""

    type: Literal["source", "target"] = Field(
        "source", description="Which languages to list: `source` or `target`."
    )
    auth_key: Any = Field(
        None, description="Key, if the server has keys and the header `Authorization` has none."
    )


class DeepLLanguage(BaseModel):
    """One language in the response of `/v2/languages`."""

    language: str = Field(description="Language code in upper case.")
    name: str = Field(description="Name in English.")
    supports_formality: bool | None = Field(
        None, description="Always false; present for target languages."
    )


@router.get(
    "/v2/languages",
    response_model=list[DeepLLanguage],
    response_model_exclude_none=True,
    responses=DEEPL_ERRORS,
    operation_id="deepl_languages_get",
    openapi_extra={
        "parameters": [
            {
                "name": "type",
                "in": "query",
                "description": "Which languages to list: `source` or `target`.",
                "schema": LanguagesRequest.model_json_schema()["properties"]["type"],
            }
        ]
    },
)
@router.post(
    "/v2/languages",
    response_model=list[DeepLLanguage],
    response_model_exclude_none=True,
    responses=DEEPL_ERRORS,
    operation_id="deepl_languages_post",
    openapi_extra=request_body(LanguagesRequest, JSON, FORM),
)
async def languages(request: Request) -> Response:
    """Lists the source or the target languages.

    DeepL's Python client sends the parameters as a form, even with GET.
    """
    services = services_of(request)
    body = await read_parameters(request, LanguagesRequest)
    if body.type == "source":
        return JSONResponse([language_body(code) for code in source_codes(services.catalog)])
    return JSONResponse(
        [
            {**language_body(code), "supports_formality": False}
            for code in target_codes(services.catalog)
        ]
    )


def language_body(code: str) -> dict[str, Any]:
    """Returns the body of one language."""
    return {"language": code, "name": display_name(code)}


def source_codes(catalog: Catalog) -> list[str]:
    """Returns DeepL's codes of the languages from which the server translates."""
    return sorted({source_code(language, catalog) for language in catalog.offers()})


def target_codes(catalog: Catalog) -> list[str]:
    """Returns DeepL's codes of the languages into which the server translates."""
    # `sources` includes the target itself. If the target is the only source, no other language
    # is translated to the target.
    targets = [each for each in catalog.languages if len(catalog.sources(each)) > 1]
    return sorted({code.upper() for each in targets for code in REGIONS.get(each, (each,))})


def source_code(language: str, catalog: Catalog) -> str:
    """Returns DeepL's code of a served source language.

    DeepL names a source language without its region or script. If that short code means another
    served language, the function returns the full code.
    """
    short = language.partition("-")[0]
    is_same = match_language(short, catalog.languages) == language
    return (short if is_same else language).upper()
