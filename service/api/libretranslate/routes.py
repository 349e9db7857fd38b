"""POST /translate and POST /detect, and the list of all routes of LibreTranslate's API."""

import asyncio
import time
from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate
from typing import Any
from urllib.parse import quote

from fastapi import APIRouter, Request
from starlette.responses import Response

from service.api import deeplx, error_texts, streams
from service.api.context import HttpContext, Services, context_of
from service.api.dialect import Dialect
from service.api.errors import ERRORS, MISSING, ErrorBody, Responses, responses_of
from service.api.libretranslate import streaming
from service.api.libretranslate.schemas import (
    DefaultLanguages,
    DetectedLanguage,
    DetectRequest,
    FrontendSettings,
    Language,
    LanguageChoice,
    SuggestRequest,
    SuggestResponse,
    TranslateFileRequest,
    TranslateFileResponse,
    TranslateRequest,
    TranslateResponse,
)
from service.api.libretranslate.streaming import detection_body
from service.api.request import reading, translation
from service.api.request.handlers import route
from service.api.request.parameters import FORM, JSON, MULTIPART, AcceptLanguage, described
from service.api.responses import JSONResponse
from service.documents.formats import FORMATS
from service.errors import ForbiddenError, InvalidRequestError, NotFoundError, counted
from service.models.catalog import Catalog
from service.models.routes import PIVOT
from service.state.suggestions import Suggestion
from service.tasks.detection import cost
from service.tasks.translation.sentences import TranslatedText
from service.tasks.translation.translator import TranslationRequest
from service.text.detection import Detection
from service.text.glossary import Terms
from service.text.language_codes import display_name

router = APIRouter(tags=["translation"])
information = APIRouter(tags=["languages"], responses=responses_of(ErrorBody, "4XX"))

MAX_DETECT_CHARS = 16384
"""Cost, as `detection.cost` counts it, after which /detect ignores the other texts of a list."""


@router.post(
    "/translate",
    responses={**ERRORS, **MISSING, 200: streaming.DESCRIPTION},
    **described(TranslateRequest, TranslateResponse, JSON, FORM),
)
async def translate(request: Request) -> Response:
    """Translates a text or a list of texts. Some parameters are additions to LibreTranslate's."""
    context = context_of(request)
    start = time.perf_counter()
    try:
        fields = await reading.read_permitted(request)
        is_deeplx = "q" not in fields and "text" in fields and "target" not in fields
        if is_deeplx:
            context.dialect = deeplx.DIALECT
            asked = reading.validated(fields, deeplx.DeepLXRequest)
        else:
            body = reading.validated(fields, TranslateRequest)
            wanted = resolve(body, context)
            if body.glossary:
                pair = wanted.source, wanted.target
                wanted.terms = await terms_of(context.services, body.glossary, *pair)
    finally:
        context.add("validate", time.perf_counter() - start)
    if is_deeplx:
        reply = await reading.unless_disconnected(request, deeplx.translate(context, asked))
        return JSONResponse(reply.model_dump())
    if stream_type := streaming.wanted_type(context):
        streaming.check(body)
        sentences = translation.stream(context, wanted)
        writer = streaming.EventWriter(stream_type)
        beginning = streams.respond(context, stream_type, sentences, writer)
        return await reading.unless_disconnected(request, beginning)
    work = translation.translate(context, wanted)
    results = await reading.unless_disconnected(request, work)
    start = time.perf_counter()
    response = JSONResponse(response_body(body, results))
    context.add("serialize", time.perf_counter() - start)
    return response


@route(router.post, "/detect", list[DetectedLanguage], JSON, FORM, responses=ERRORS)
async def detect(context: HttpContext, body: DetectRequest) -> Any:
    """Returns up to three served languages in which `q` may be written, most probable first.

    If no language is detected, the response is `en` with the confidence 0, as in LibreTranslate.
    """
    texts = translation.as_texts(context, "q", body.q)
    detections = await translation.detected(context, sample(texts))
    return [detection_body(each) for each in mean_detections(detections)]


def resolve(body: TranslateRequest, context: HttpContext) -> TranslationRequest:
    settings = context.services.settings
    texts = translation.as_texts(context, "q", body.q)
    most = settings.max_beam_size - 1
    if body.alternatives > most:
        raise too_wide("alternatives", body.alternatives, most)
    if body.beam_size is not None and body.beam_size > settings.max_beam_size:
        raise too_wide("beam_size", body.beam_size, settings.max_beam_size)
    if body.format == "html" and body.return_alignment:
        raise InvalidRequestError(
            "Invalid request: return_alignment is not available for HTML; leave format out"
        )
    if body.glossary and body.return_alignment:
        raise InvalidRequestError(
            "Invalid request: return_alignment and glossary cannot be used together; send only one"
        )
    prefixes = prefixes_of(body, len(texts)) if body.target_prefix else ()
    source, target = languages_of(context.services.catalog, body.source, body.target)
    num_hypotheses = body.alternatives + 1
    beam_size = max(body.beam_size or 1, num_hypotheses)
    options = translation.decoding_options(beam_size, num_hypotheses, body.return_scores)
    return TranslationRequest(
        texts,
        source,
        target,
        options,
        body.split_sentences,
        body.return_alignment,
        body.format == "html",
        split_lines=body.format != "html",
        prefixes=prefixes,
    )


def prefixes_of(body: TranslateRequest, num_texts: int) -> list[str]:
    given = body.target_prefix
    if body.format == "html" or body.glossary:
        name = "glossary" if body.glossary else "format=html"
        raise InvalidRequestError(
            f"Invalid request: target_prefix and {name} cannot be used together; send only one"
        )
    prefixes = [given] * num_texts if isinstance(given, str) else [*given]
    if len(prefixes) != num_texts:
        raise InvalidRequestError(
            f"Invalid request: target_prefix has {counted(len(prefixes), 'string')} and q has "
            f"{counted(num_texts, 'text')}; send one for each text, or one string for all"
        )
    return prefixes


def too_wide(name: str, value: int, limit: int) -> InvalidRequestError:
    error = error_texts.out_of_range(name, "<=", limit, value)
    error.details += "; ask for less, or raise REGARD_MAX_BEAM_SIZE"
    return error


def response_body(body: TranslateRequest, results: list[TranslatedText]) -> dict[str, Any]:
    texts: list[str] = []
    items: dict[str, list[Any]] = {"translatedText": texts}
    has_routes = has_warnings = False
    for result in results:
        texts.append(result.text)
        if result.detected:
            detection = detection_body(result.detected)
            items.setdefault("detectedLanguage", []).append(detection)
        has_routes = has_routes or len(result.route) > 1 or result.substitutes != {}
        has_warnings = has_warnings or bool(result.warnings)
    if has_routes:
        items["models"] = [r.models for r in results]
    if body.alternatives:
        items["alternatives"] = [r.alternatives[: body.alternatives] for r in results]
    if body.return_scores:
        items["scores"] = [result.scores for result in results]
    if body.return_alignment:
        items["alignment"] = [result.alignments for result in results]
    if has_warnings:
        items["warnings"] = [result.warnings for result in results]
    if isinstance(body.q, list):
        return items
    return {name: values[0] for name, values in items.items()}


def sample(texts: Sequence[str]) -> list[str]:
    end = len(texts)
    for index, chars in enumerate(accumulate(map(cost, texts))):
        if chars > MAX_DETECT_CHARS:
            end = index + 1
            break
    return [*texts[:end]]


def mean_detections(detections: list[list[Detection]]) -> list[Detection]:
    totals: dict[str, float] = {}
    for detection in (d for found in detections for d in found):
        totals[detection.language] = totals.get(detection.language, 0.0) + detection.confidence
    means = [Detection(code, round(sum_ / len(detections), 1)) for code, sum_ in totals.items()]
    best = sorted(means, key=lambda detection: -detection.confidence)[:3]
    unserved = {found[0].unserved for found in detections}
    if len(unserved) == 1:
        best[0] = replace(best[0], unserved=unserved.pop())
    return best


@information.get("/languages", response_model=list[Language])
async def languages(request: Request, accept_language: AcceptLanguage = None) -> Response:
    """Lists the source languages, and the target languages of each."""
    return JSONResponse(
        [
            {"code": code, "name": display_name(code, accept_language), "targets": targets}
            for code, targets in context_of(request).services.catalog.offers().items()
        ]
    )


@information.get("/frontend/settings")
async def frontend_settings(
    request: Request, accept_language: AcceptLanguage = None
) -> FrontendSettings:
    """Returns the settings that clients need for their forms. A limit of -1 means no limit."""
    services = context_of(request).services
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


def languages_of(catalog: Catalog, source: str, target: str) -> tuple[str | None, str]:
    code = None if source.strip().lower() == "auto" else source
    return translation.find_languages(catalog, ("source", code), ("target", target))


async def terms_of(
    services: Services, glossary: str | None, source: str | None, target: str
) -> Terms | None:
    if glossary and source is None:
        raise InvalidRequestError(
            "Invalid request: a glossary needs the source language; name it in place of auto"
        )
    glossaries = [glossary] if glossary else []
    return await translation.find_terms(services, glossaries, source, target)


def default_target(catalog: Catalog) -> str:
    """Returns the target of the first single-pair model, the last language, or English."""
    targets = [model.files.target for model in catalog.models.values() if model.files.target]
    offered = [target for target in targets if target in catalog.languages]
    return [*offered, *reversed(catalog.languages), PIVOT][0]


DOCUMENT: Responses = {
    **responses_of(ErrorBody, "4XX"),
    200: {"description": "The document.", "content": {"application/octet-stream": {}}},
}


@router.post(
    "/translate_file",
    responses={**ERRORS, **MISSING},
    **described(TranslateFileRequest, TranslateFileResponse, MULTIPART),
)
async def translate_file(request: Request) -> Response:
    """Translates a document, and returns the address of the translated document."""
    context = context_of(request)
    documents = translation.enabled(context.services)
    with context.stage("validate"):
        fields = await reading.read_permitted(request, reading.read_form)
        body = reading.validated(fields, TranslateFileRequest)
        source, target = languages_of(context.services.catalog, body.source, body.target)
        terms = await terms_of(context.services, body.glossary, source, target)
        opening = translation.open_job(documents, body.file, source, target, terms, context)
        job = await reading.unless_disconnected(request, opening)
    await reading.unless_disconnected(request, documents.run(job))
    name = quote(job.state.name)
    url = f"{request.base_url}download_file/{job.state.id}.{name}"
    return JSONResponse({"translatedFileUrl": url, "skipped": job.state.skipped})


@router.get("/download_file/{name}", response_class=Response, responses=DOCUMENT)
async def download_file(request: Request, name: str) -> Response:
    """Returns a translated document. The address cannot be guessed, and it expires."""
    documents = context_of(request).services.documents
    if documents is None:
        raise error_texts.files_disabled(InvalidRequestError)
    state = documents.store.load(name.partition(".")[0])
    content = None
    if state is not None and state.status == "done":
        content = await asyncio.to_thread(documents.store.content, state.id)
    if state is None or content is None:
        raise NotFoundError("the file does not exist or has expired; translate the document again")
    return translation.download(state, content)


@router.post("/suggest", responses=ERRORS, **described(SuggestRequest, SuggestResponse, JSON, FORM))
async def suggest(request: Request) -> Response:
    """Stores a suggested translation, which the operator can use to improve the models."""
    services = context_of(request).services
    if services.suggestions is None:
        raise ForbiddenError(
            "Suggestions are disabled on this server.",
            details="REGARD_SUGGESTIONS=true enables them",
        )
    body = reading.validated(await reading.read_permitted(request), SuggestRequest)
    for name, text in (("q", body.q), ("s", body.s)):
        if not text.strip():
            raise error_texts.missing(name)
    source, target = languages_of(services.catalog, body.source, body.target)
    await services.suggestions.add(Suggestion(body.q, body.s, source or "auto", target))
    return JSONResponse({"success": True})


DIALECT = Dialect(
    (router, information),
    tasks={"/translate": "translate", "/detect": "detect", "/translate_file": "document"},
)
