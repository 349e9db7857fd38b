"""The parts of a translation that the routes of several dialects share.

They find texts, languages, options and terms, count characters for the quota, and open documents.
"""

import asyncio
import os
from collections.abc import AsyncGenerator, Coroutine, Sequence
from contextlib import AbstractAsyncContextManager, aclosing
from functools import lru_cache
from typing import Any
from urllib.parse import quote

from starlette.responses import Response, StreamingResponse

from model.sequence import DecodingOptions
from service.api import error_texts
from service.api.context import HttpContext, Services
from service.api.request.parameters import Upload
from service.api.responses import CHUNK_BYTES
from service.documents.base import DocumentError, DocumentTooLargeError, UnsupportedFormatError
from service.documents.formats import format_of
from service.errors import (
    InvalidRequestError,
    RequestTooLargeError,
    ServiceError,
    UnsupportedLanguageError,
)
from service.metrics.figures import NO_MODEL
from service.models.catalog import Catalog
from service.models.served import NotLoadedError
from service.state.documents import Content, DocumentState
from service.tasks.context import RequestContext
from service.tasks.documents import DocumentJob, DocumentTranslator
from service.tasks.translation.sentences import TranslatedText
from service.tasks.translation.translator import TranslationRequest
from service.text.detection import Detection
from service.text.glossary import Terms
from service.text.language_codes import base_language
from service.text.xml_text import XmlRules


def as_texts(context: HttpContext, name: str, given: str | Sequence[str]) -> list[str]:
    """Returns the texts of the parameter `name`, and sets their number in the context."""
    settings = context.services.settings
    texts = [given] if isinstance(given, str) else [*given]
    context.num_inputs = len(texts)
    if not given:
        raise error_texts.missing(name)
    if len(texts) > settings.max_inputs:
        raise error_texts.too_many_texts(len(texts), settings.max_inputs, name=name)
    longest = max(map(len, texts))
    if longest > settings.max_text_chars > 0:
        raise error_texts.too_many_chars(longest, settings.max_text_chars, name)
    return texts


def find_languages(
    catalog: Catalog, source: tuple[str, str | None], target: tuple[str, str]
) -> tuple[str | None, str]:
    """Returns the source and the target language of a request, as codes of the served models.

    Each argument is a name and a value. The source is None if its language is to be detected.
    """
    for name, code in (source, target):
        if code is not None and not code.strip():
            raise error_texts.missing(name)
    name = source[0]
    try:
        found = None if source[1] is None else catalog.language(source[1])
        name = target[0]
        wanted = catalog.language(target[1])
        if found is not None:
            catalog.route(found, wanted)
    except NotLoadedError:
        pass  # the task loads the models
    except UnsupportedLanguageError as error:
        error.param = name
        raise
    return found, wanted


def translation_request(
    context: HttpContext,
    texts: tuple[str, str | Sequence[str]],
    source: tuple[str, str | None],
    target: tuple[str, str],
    tags: str = "",
) -> TranslationRequest:
    """Returns the request of a dialect without other options.

    Args:
        texts: Name and value of a parameter, like `source` and `target`.
        tags: `html` or `xml` if the texts have tags.
    """
    is_html = tags == "html"
    is_auto = source[1] is None or source[1].strip().lower() in ("", "auto")
    source = source[0], None if is_auto else source[1]
    return TranslationRequest(
        as_texts(context, *texts),
        *find_languages(context.services.catalog, source, target),
        decoding_options(),
        is_html=is_html,
        xml=XmlRules() if tags == "xml" else None,
        split_lines=not is_html,
    )


@lru_cache(maxsize=256)
def decoding_options(
    beam_size: int = 1, num_hypotheses: int = 1, return_scores: bool = False
) -> DecodingOptions:
    """Returns the options; `pickle` writes equal ones only once in a message to a worker."""
    return DecodingOptions(beam_size, num_hypotheses, return_scores=return_scores)


async def find_terms(
    services: Services, glossaries: Sequence[str], source: str | None, target: str
) -> Terms | None:
    """Returns the terms of glossaries; None without a glossary or a known source language."""
    if not glossaries or source is None:
        return None
    languages = base_language(source), base_language(target)
    return await services.glossaries.terms(glossaries, *languages)


def translate(
    context: HttpContext, wanted: TranslationRequest
) -> Coroutine[Any, Any, list[TranslatedText]]:
    if context.services.quota.limit:
        return _translate_counted(context, wanted)
    return context.services.translator.translate(wanted, context)


async def _translate_counted(
    context: HttpContext, wanted: TranslationRequest
) -> list[TranslatedText]:
    async with spent(context, wanted):
        return await context.services.translator.translate(wanted, context)


def spent(context: HttpContext, *requests: TranslationRequest) -> AbstractAsyncContextManager[None]:
    """Counts the characters of translations for the quota, unless the block fails."""
    number = sum(len(text) for wanted in requests for text in wanted.texts)
    return context.services.quota.spent(context.account, number)


def source_of(result: TranslatedText, given: str) -> str:
    return result.detected.language if result.detected else given


def detected(
    context: HttpContext, texts: Sequence[str]
) -> Coroutine[Any, Any, list[list[Detection]]]:
    return context.services.translator.detection.detect(texts, context.deadline)


async def translate_each(
    context: HttpContext, *requests: TranslationRequest
) -> list[list[TranslatedText]]:
    """Performs the translations of one HTTP request one after the other, under one lease."""
    results, models = [], set()
    async with spent(context, *requests):
        for wanted in requests:
            results.append(await context.services.translator.translate(wanted, context))
            models.add(context.model)
    context.model = models.pop() if len(models) == 1 else NO_MODEL
    return results


async def stream(
    context: HttpContext, wanted: TranslationRequest
) -> AsyncGenerator[TranslatedText, None]:
    """Yields translated sentences. A failure before the first one costs no characters."""
    async with aclosing(context.services.translator.stream(wanted, context)) as sentences:
        async with spent(context, wanted):
            first = await anext(sentences)
        yield first
        async for sentence in sentences:
            yield sentence


async def open_job(
    documents: DocumentTranslator,
    file: Upload,
    source: str | None,
    target: str,
    terms: Terms | None,
    context: RequestContext,
) -> DocumentJob:
    try:
        job = await documents.open(file.name, file.data, source, target, context)
    except DocumentError as error:
        raise refusal(error) from None
    job.terms = terms
    return job


def enabled(services: Services) -> DocumentTranslator:
    if services.documents is None:
        raise error_texts.files_disabled()
    return services.documents


def refusal(error: DocumentError) -> ServiceError:
    if isinstance(error, UnsupportedFormatError):
        return InvalidRequestError("Invalid request: file format not supported", details=str(error))
    is_large = isinstance(error, DocumentTooLargeError)
    kind = RequestTooLargeError if is_large else InvalidRequestError
    return kind("Invalid request: the file cannot be read", details=str(error))


def download(state: DocumentState, content: Content) -> Response:
    headers = {
        "Content-Length": str(len(content)),
        "Content-Disposition": f"attachment; filename*=UTF-8''{quote(state.name)}",
        "X-Content-Type-Options": "nosniff",
        "Cache-Control": "no-store",
    }
    media_type = format_of(state.name).media_type
    return StreamingResponse(_pieces(content), media_type=media_type, headers=headers)


async def _pieces(content: Content) -> AsyncGenerator[bytes, None]:
    for begin in range(0, len(content), CHUNK_BYTES):
        yield await asyncio.to_thread(os.pread, content.descriptor, CHUNK_BYTES, begin)
