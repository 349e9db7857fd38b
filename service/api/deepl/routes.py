"""POST /v2/translate, and the dialect of DeepL."""

from typing import Any

from fastapi import APIRouter, Request
from starlette.responses import Response

from service.api.deepl import documents, languages, usage
from service.api.deepl.errors import DEEPL_ERRORS, DEEPL_PREFIX, TRACE_HEADER, deepl_shape
from service.api.deepl.languages import source_code
from service.api.deepl.schemas import DeepLRequest, DeepLResponse
from service.api.dialect import Dialect
from service.api.request.body import FORM, JSON
from service.api.request.disconnect import unless_disconnected
from service.api.request.openapi import request_body
from service.api.request.parameters import read_parameters
from service.api.request.translation import as_texts, decoding_options, find_languages
from service.api.responses import JSONResponse
from service.api.services import Services, context_of, services_of
from service.errors import InvalidRequestError
from service.models.catalog import Catalog
from service.tasks.translation import TranslatedText, TranslationRequest

router = APIRouter(tags=["deepl"])

MAX_TEXTS = 50
"""Most texts in one request, as at DeepL."""


@router.post(
    "/v2/translate",
    response_model=DeepLResponse,
    response_model_exclude_none=True,
    responses=DEEPL_ERRORS,
    openapi_extra=request_body(DeepLRequest, JSON, FORM),
)
async def translate(request: Request) -> Response:
    """Translates up to 50 texts, in DeepL's shape."""
    services, context = services_of(request), context_of(request)
    with context.stage("validate"):
        body = await read_parameters(request, DeepLRequest, services.settings.max_body_bytes)
        texts = as_texts("text", body.text, services.settings, context)
        wanted = resolve(body, texts, services)
    results = await unless_disconnected(request, services.translator.translate(wanted, context))
    context.billed_characters = sum(map(len, texts))
    with context.stage("serialize"):
        return JSONResponse(response_body(body, wanted, results, services.catalog))


def resolve(body: DeepLRequest, texts: list[str], services: Services) -> TranslationRequest:
    """Returns the request for the task, with its languages looked up and its options checked.

    Raises:
        InvalidRequestError: There are too many texts, or an option is not available.
        UnsupportedLanguageError: The server has no such language or pair.
    """
    if len(texts) > MAX_TEXTS:
        raise InvalidRequestError(
            "Too many texts", details=f"{len(texts)} texts; the limit is {MAX_TEXTS}, send fewer"
        )
    source, target = find_languages(
        services.catalog,
        ("source_lang", body.source_lang or None),
        ("target_lang", body.target_lang),
    )
    if body.formality in ("more", "less"):
        raise InvalidRequestError(
            "'formality' is not supported for given 'target_lang'.",
            details=f"send default or prefer_{body.formality}",
        )
    if body.unavailable:
        raise InvalidRequestError(
            f"'{body.unavailable}' is not available on this server.", details="leave it out"
        )
    return TranslationRequest(
        texts,
        source,
        target,
        decoding_options(),
        split_sentences=body.split_sentences != "0",
        split_lines=body.split_sentences == "1",
    )


def response_body(
    body: DeepLRequest,
    wanted: TranslationRequest,
    results: list[TranslatedText],
    catalog: Catalog,
) -> dict[str, Any]:
    """Returns the response, with only the requested members."""
    translations = []
    for text, result in zip(wanted.texts, results, strict=True):
        detected = result.detected.language if result.detected else wanted.source
        assert detected is not None  # without a given source the task detects it
        item: dict[str, Any] = {
            "detected_source_language": source_code(detected, catalog),
            "text": result.text,
        }
        if body.show_billed_characters:
            item["billed_characters"] = len(text)
        if body.model_type:
            item["model_type_used"] = body.model_type.removeprefix("prefer_")
        translations.append(item)
    return {"translations": translations}


DIALECT = Dialect(
    (router, documents.router, languages.router, usage.router),
    tasks={"/v2/translate": "translate"},
    direct={("POST", "/v2/translate"): translate},
    prefix=DEEPL_PREFIX,
    error_shape=deepl_shape,
    id_header=TRACE_HEADER,
)
