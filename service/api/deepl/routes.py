"""Serves POST /v2/translate, and defines the dialect of version 2 of DeepL's API."""

from typing import Any, Literal

from fastapi import APIRouter, Request
from pydantic import BaseModel, Field
from starlette.responses import Response

from service.api.context import Services, context_of, services_of
from service.api.deepl import documents, glossaries
from service.api.deepl.errors import DEEPL_ERRORS, GLOSSARY_NEEDS_SOURCE, TRACE_HEADER, deepl_shape
from service.api.deepl.schemas import DeepLRequest, DeepLResponse, KeyOnly, check_formality
from service.api.dialect import Dialect
from service.api.request import translation
from service.api.request.parameters import FORM, JSON, described
from service.api.request.reading import read_parameters, unless_disconnected
from service.api.request.translation import as_texts, decoding_options, find_languages
from service.api.responses import JSONResponse
from service.errors import InvalidRequestError
from service.models.catalog import Catalog
from service.tasks.translation.sentences import TranslatedText
from service.tasks.translation.translator import TranslationRequest
from service.text.language_codes import display_name, match_language
from service.text.xml_text import XmlRules

router = APIRouter(tags=["deepl"], responses=DEEPL_ERRORS)

MAX_TEXTS = 50
"""Largest number of texts in one request. DeepL has the same limit."""

MAX_GLOSSARY_IDS = 5
"""Largest number of glossaries in one request. DeepL has the same limit."""


@router.post("/v2/translate", **described(DeepLRequest, DeepLResponse, JSON, FORM))
async def translate(request: Request) -> Response:
    """Translates up to 50 texts, in DeepL's shape."""
    services, context = services_of(request), context_of(request)
    with context.stage("validate"):
        body = await read_parameters(request, DeepLRequest)
        texts = as_texts("text", body.text, services.settings, context)
        wanted = resolve(body, texts, services)
        wanted.terms = await translation.find_terms(
            services, glossaries_of(body), wanted.source, wanted.target
        )
    work = translation.translate(services, wanted, context)
    results = await unless_disconnected(request, work)
    context.billed_characters = sum(map(len, texts))
    with context.stage("serialize"):
        return JSONResponse(response_body(body, wanted, results, services.catalog))


def resolve(body: DeepLRequest, texts: list[str], services: Services) -> TranslationRequest:
    if len(texts) > MAX_TEXTS:
        raise InvalidRequestError(
            "Too many texts", details=f"{len(texts)} texts; the limit is {MAX_TEXTS}, send fewer"
        )
    source, target = find_languages(
        services.catalog,
        ("source_lang", body.source_lang or None),
        ("target_lang", body.target_lang),
    )
    check_formality(body.formality)
    if body.unavailable:
        raise InvalidRequestError(
            f"'{body.unavailable}' is not available on this server.", details="leave it out"
        )
    xml = None
    if body.tag_handling == "xml":
        tags = body.ignore_tags, body.splitting_tags, body.non_splitting_tags
        ignored, splitting, inline = map(frozenset, tags)
        xml = XmlRules(ignored, splitting, inline, body.outline_detection)
    is_explicit = "split_sentences" in body.model_fields_set
    return TranslationRequest(
        texts,
        source,
        target,
        decoding_options(),
        split_sentences=body.split_sentences != "0",
        split_lines=body.split_sentences == "1" and (body.tag_handling != "html" or is_explicit),
        is_html=body.tag_handling == "html",
        xml=xml,
    )


def glossaries_of(body: DeepLRequest) -> list[str]:
    ids = [*body.glossary_ids, *([body.glossary_id] if body.glossary_id else [])]
    if body.glossary_id and body.glossary_ids:
        raise InvalidRequestError(
            "'glossary_id' and 'glossary_ids' cannot be used together", details="send one of them"
        )
    if len(ids) > MAX_GLOSSARY_IDS:
        details = f"{len(ids)} glossaries; the limit is {MAX_GLOSSARY_IDS}, send fewer"
        raise InvalidRequestError("Too many glossaries", details=details)
    if ids and not body.source_lang:
        raise InvalidRequestError(GLOSSARY_NEEDS_SOURCE)
    return ids


def response_body(
    body: DeepLRequest,
    wanted: TranslationRequest,
    results: list[TranslatedText],
    catalog: Catalog,
) -> dict[str, Any]:
    translations = []
    for text, result in zip(wanted.texts, results, strict=True):
        detected = result.detected.language if result.detected else wanted.source
        assert detected is not None  # without a given source, the task detects one
        item: dict[str, Any] = {
            "detected_source_language": source_code(detected, catalog),
            "text": result.text,
        }
        if body.show_billed_characters:
            item["billed_characters"] = len(text)
        if body.tag_handling:
            item["tag_handling_version"] = body.tag_handling_version or "v2"
        if body.model_type:
            item["model_type_used"] = body.model_type.removeprefix("prefer_")
        translations.append(item)
    return {"translations": translations}


REGIONS = {"en": ("en-GB", "en-US"), "pt": ("pt-BR", "pt-PT")}
"""Target languages that DeepL lists by regions; its clients refuse the plain codes."""


class LanguagesRequest(KeyOnly):
    """The parameters of `GET` or `POST /v2/languages`, in the query, as JSON or as a form."""

    type: Literal["source", "target"] = Field(
        "source", description="Which languages to list: `source` or `target`."
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
    operation_id="deepl_languages_post",
    **described(LanguagesRequest, list[DeepLLanguage], JSON, FORM),
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


NO_LIMIT = 10**12
"""Value of `character_limit` that stands for no limit; DeepL returns it for unlimited plans."""


class DeepLUsage(BaseModel):
    """The number of translated characters, and the limit of this number.

    With a limit, `character_count` is the number of characters that DeepL's and LibreTranslate's
    routes have translated for the key this month. On a server without keys, it is the number for
    all clients. Without a limit, it is the number of characters that `/v2/translate` and
    `/v2/document` have translated for all keys since the server started.
    """

    character_count: int = Field(description="Number of code points of the translated texts.")
    character_limit: int = Field(description=f"{NO_LIMIT:,} means that there is no limit.")


@router.get("/v2/usage", operation_id="deepl_usage_get")
@router.post("/v2/usage", operation_id="deepl_usage_post")
async def usage(request: Request) -> DeepLUsage:
    """Returns the number of translated characters, and the limit of this number."""
    services = services_of(request)
    await read_parameters(request, KeyOnly)
    quota = services.quota
    if quota.limit:
        used = await quota.used(context_of(request).account)
        return DeepLUsage(character_count=used, character_limit=quota.limit)
    status = await services.backend.status()
    return DeepLUsage(character_count=status.billed_characters, character_limit=NO_LIMIT)


DIALECT = Dialect(
    (router, documents.router, glossaries.router, glossaries.lists),
    tasks={"/v2/translate": "translate"},
    prefixes=("/v2/", "/v3/"),
    error_shape=deepl_shape,
    id_header=TRACE_HEADER,
)
