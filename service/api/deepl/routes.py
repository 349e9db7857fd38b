"""Serves POST /v2/translate, and defines the dialect of version 2 of DeepL's API."""

from typing import Any

from fastapi import APIRouter
from pydantic import BaseModel, Field
from starlette.responses import Response

from service.api.context import HttpContext
from service.api.deepl import documents, glossaries, languages
from service.api.deepl.errors import DEEPL_ERRORS, TRACE_HEADER, deepl_shape
from service.api.deepl.glossaries import resolve_languages
from service.api.deepl.languages import source_code
from service.api.deepl.schemas import DeepLRequest, DeepLResponse, KeyOnly
from service.api.dialect import Dialect
from service.api.request import translation
from service.api.request.handlers import route
from service.api.request.parameters import FORM, JSON
from service.api.responses import JSONResponse
from service.errors import InvalidRequestError
from service.models.catalog import Catalog
from service.tasks.translation.neighbors import Neighbors
from service.tasks.translation.sentences import TranslatedText
from service.tasks.translation.translator import TranslationRequest
from service.text.xml_text import XmlRules

router = APIRouter(tags=["deepl"], responses=DEEPL_ERRORS)

MAX_TEXTS = 50
"""Largest number of texts in one request. DeepL has the same limit."""


@route(router.post, "/v2/translate", DeepLResponse, JSON, FORM)
async def translate(context: HttpContext, body: DeepLRequest) -> Response:
    """Translates up to 50 texts, in DeepL's shape."""
    with context.stage("validate"):
        texts = translation.as_texts(context, "text", body.text)
        wanted = await resolve(body, texts, context)
    results = await translation.translate(context, wanted)
    context.billed_characters = sum(map(len, texts))
    with context.stage("serialize"):
        return JSONResponse(response_body(body, wanted, results, context.services.catalog))


async def resolve(body: DeepLRequest, texts: list[str], context: HttpContext) -> TranslationRequest:
    if len(texts) > MAX_TEXTS:
        raise InvalidRequestError(
            "Too many texts", details=f"{len(texts)} texts; the limit is {MAX_TEXTS}, send fewer"
        )
    source, target, terms = await resolve_languages(context.services, body)
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
        translation.decoding_options(),
        split_sentences=body.split_sentences != "0",
        split_lines=body.split_sentences == "1" and (body.tag_handling != "html" or is_explicit),
        is_html=body.tag_handling == "html",
        xml=xml,
        terms=terms,
        neighbors=Neighbors(texts, body.context) if body.context else None,
    )


def response_body(
    body: DeepLRequest, wanted: TranslationRequest, results: list[TranslatedText], catalog: Catalog
) -> dict[str, Any]:
    translations = []
    for text, result in zip(wanted.texts, results, strict=True):
        source = translation.source_of(result, wanted.source or "")
        item: dict[str, Any] = {
            "detected_source_language": source_code(source, catalog),
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


@route(router.get, "/v2/usage", DeepLUsage, operation_id="deepl_usage_get")
@route(router.post, "/v2/usage", DeepLUsage, JSON, FORM, operation_id="deepl_usage_post")
async def usage(context: HttpContext, _body: KeyOnly) -> DeepLUsage:
    """Returns the number of translated characters, and the limit of this number."""
    quota = context.services.quota
    if quota.limit:
        used = await quota.used(context.account)
        return DeepLUsage(character_count=used, character_limit=quota.limit)
    status = await context.services.backend.status()
    return DeepLUsage(character_count=status.billed_characters, character_limit=NO_LIMIT)


DIALECT = Dialect(
    (router, languages.router, documents.router, glossaries.router, glossaries.lists),
    tasks={"/v2/translate": "translate"},
    prefixes=("/v2/", "/v3/"),
    error_shape=deepl_shape,
    id_header=TRACE_HEADER,
)
