"""POST /translate and POST /detect, and the list of all routes of LibreTranslate's API."""

import time
from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate
from typing import Any

from fastapi import APIRouter, Request
from starlette.responses import Response

from service.api import error_texts
from service.api.context import HttpContext, Services, context_of, services_of
from service.api.dialect import Dialect
from service.api.errors import ERRORS, MISSING
from service.api.libretranslate import (
    description,
    files,
    languages,
    streaming,
    suggestions,
)
from service.api.libretranslate.schemas import (
    DetectedLanguage,
    DetectRequest,
    TranslateRequest,
    TranslateResponse,
)
from service.api.request import translation
from service.api.request.parameters import FORM, JSON, request_body
from service.api.request.reading import read_parameters, unless_disconnected
from service.api.request.translation import as_texts, decoding_options
from service.api.responses import JSONResponse
from service.errors import InvalidRequestError
from service.tasks.detection import cost
from service.tasks.translation.translator import TranslatedText, TranslationRequest
from service.text.detection import Detection

router = APIRouter(tags=["translation"])

MAX_DETECT_CHARS = 16384
"""Number of characters after which /detect ignores the remaining texts of a list.

The function `service.tasks.detection.cost` counts the characters. It counts only the beginning of
a long text, and adds a fixed number for each text.
"""


@router.post(
    "/translate",
    response_model=TranslateResponse,
    responses={**ERRORS, **MISSING, 200: streaming.DESCRIPTION},
    openapi_extra=request_body(TranslateRequest, JSON, FORM),
)
async def translate(request: Request) -> Response:
    """Translates a text or a list of texts. Some parameters are additions to LibreTranslate's."""
    services, context = services_of(request), context_of(request)
    with context.stage("validate"):
        body = await read_parameters(request, TranslateRequest)
        wanted = resolve(body, services, context)
        if body.glossary:
            glossaries = languages.glossaries_of(body, wanted.source)
            wanted.terms = await translation.find_terms(
                services, glossaries, wanted.source, wanted.target
            )
    if stream_type := streaming.wanted_type(context):
        streaming.check(body)
        sentences = translation.stream(services, wanted, context)
        return await streaming.respond(request, stream_type, sentences)
    work = translation.translate(services, wanted, context)
    results = await unless_disconnected(request, work)
    start = time.perf_counter()
    response = JSONResponse(response_body(body, results))
    context.add("serialize", time.perf_counter() - start)
    return response


@router.post(
    "/detect",
    response_model=list[DetectedLanguage],
    responses=ERRORS,
    openapi_extra=request_body(DetectRequest, JSON, FORM),
)
async def detect(request: Request) -> Response:
    """Returns up to three served languages in which `q` may be written, most probable first.

    If no language is detected, the response is `en` with the confidence 0, as in LibreTranslate.
    """
    services, context = services_of(request), context_of(request)
    body = await read_parameters(request, DetectRequest)
    texts = as_texts("q", body.q, services.settings, context)
    deadline = context.deadline(services.settings.request_timeout_seconds)
    work = services.translator.detection.detect(sample(texts), deadline)
    detections = await unless_disconnected(request, work)
    return JSONResponse([languages.detection_body(each) for each in mean_detections(detections)])


def resolve(body: TranslateRequest, services: Services, context: HttpContext) -> TranslationRequest:
    """Converts a body to a TranslationRequest; finds the languages and checks the options."""
    settings = services.settings
    texts = as_texts("q", body.q, settings, context)
    for name, value, limit in (
        ("alternatives", body.alternatives, settings.max_alternatives),
        ("beam_size", body.beam_size or 1, settings.max_beam_size),
    ):
        if value > limit:
            text, details = error_texts.out_of_range(name, "<=", limit, value)
            way_out = f"{details}; ask for less, or raise REGARD_MAX_BEAM_SIZE"
            raise InvalidRequestError(text, details=way_out)
    if body.format == "html" and body.return_alignment:
        raise InvalidRequestError(
            "Invalid request: return_alignment is not available for HTML; leave format out"
        )
    if body.glossary and body.return_alignment:
        raise InvalidRequestError(
            "Invalid request: return_alignment and glossary cannot be used together; send only one"
        )
    source, target = languages.find(services.catalog, body.source, body.target)
    num_hypotheses = body.alternatives + 1
    beam_size = max(body.beam_size or 1, num_hypotheses)
    options = decoding_options(beam_size, num_hypotheses, body.return_scores)
    # Alignment needs the words that the client sent. Protection would replace some of them, such
    # as URLs, by stand-ins before the translation.
    protects = not body.return_alignment
    return TranslationRequest(
        texts,
        source,
        target,
        options,
        body.split_sentences,
        body.return_alignment,
        protects,
        body.format == "html",
    )


def response_body(body: TranslateRequest, results: list[TranslatedText]) -> dict[str, Any]:
    """Returns the response body; if `q` is a list, each field is a list with a value per text."""
    texts: list[str] = []
    items: dict[str, list[Any]] = {"translatedText": texts}
    has_routes = has_warnings = False
    for result in results:
        texts.append(result.text)
        if result.detected:
            detection = languages.detection_body(result.detected)
            items.setdefault("detectedLanguage", []).append(detection)
        has_routes = has_routes or len(result.prepared.route) > 1
        has_warnings = has_warnings or bool(result.prepared.warnings)
    if has_routes:
        items["models"] = [[each.name for each in r.prepared.route] for r in results]
    if body.alternatives:
        items["alternatives"] = [r.alternatives[: body.alternatives] for r in results]
    if body.return_scores:
        items["scores"] = [result.scores for result in results]
    if body.return_alignment:
        items["alignment"] = [result.prepared.alignments for result in results]
    if has_warnings:
        items["warnings"] = [result.prepared.warnings for result in results]
    if isinstance(body.q, list):
        return items
    return {name: values[0] for name, values in items.items()}


def sample(texts: Sequence[str]) -> list[str]:
    """Returns the first texts of a list, until their total cost exceeds MAX_DETECT_CHARS.

    The text that raises the total above this limit is included.
    """
    end = len(texts)
    for index, chars in enumerate(accumulate(map(cost, texts))):
        if chars > MAX_DETECT_CHARS:
            end = index + 1
            break
    return [*texts[:end]]


def mean_detections(detections: list[list[Detection]]) -> list[Detection]:
    """Returns up to three languages, with their mean confidence over all texts, best first.

    If all texts are in the same unserved language, the first detection names it in `unserved`.
    """
    totals: dict[str, float] = {}
    for detection in (d for found in detections for d in found):
        totals[detection.language] = totals.get(detection.language, 0.0) + detection.confidence
    means = [Detection(code, round(sum_ / len(detections), 1)) for code, sum_ in totals.items()]
    best = sorted(means, key=lambda detection: -detection.confidence)[:3]
    unserved = {found[0].unserved for found in detections}
    if len(unserved) == 1:
        best[0] = replace(best[0], unserved=unserved.pop())
    return best


DIALECT = Dialect(
    (router, languages.router, files.router, suggestions.router, description.router),
    tasks={"/translate": "translate", "/detect": "detect", "/translate_file": "document"},
)
