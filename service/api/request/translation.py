"""Functions that several dialects use to handle translation requests.

They find texts, languages, options and terms, and count characters for the quota.

A dialect is one API of the server, such as LibreTranslate's or DeepL's.
"""

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from functools import lru_cache

from model.sequence import DecodingOptions
from service.api import error_texts
from service.api.request.parameters import check_given
from service.api.services import Services
from service.errors import InvalidRequestError, UnsupportedLanguageError
from service.models.catalog import Catalog
from service.settings import Settings
from service.tasks.context import RequestContext
from service.tasks.translation.streaming import TranslatedSentence
from service.tasks.translation.translator import TranslatedText, TranslationRequest
from service.text.glossary.terms import Terms
from service.text.language_codes import base_language


def as_texts(
    name: str, given: str | Sequence[str], settings: Settings, context: RequestContext
) -> list[str]:
    """Returns the texts of a request, and sets their number in the request's context.

    Args:
        name: Name of the parameter with the texts.
        given: A text or a list of texts.
        settings: Limits of the server.
        context: Context of the request.

    Raises:
        InvalidRequestError: The request has no text, too many texts, or a text that is too long.
    """
    texts = [given] if isinstance(given, str) else [*given]
    context.num_inputs = len(texts)
    if not given:
        raise InvalidRequestError(error_texts.missing(name).text, param=name)
    if len(texts) > settings.max_inputs:
        fault = error_texts.too_many_texts(len(texts), settings.max_inputs)
        raise InvalidRequestError(fault.text, param=name, details=fault.details)
    longest = max(map(len, texts))
    if longest > settings.max_text_chars > 0:
        fault = error_texts.too_many_chars(longest, settings.max_text_chars)
        raise InvalidRequestError(fault.text, param=name, details=fault.details)
    return texts


def find_languages(
    catalog: Catalog, source: tuple[str, str | None], target: tuple[str, str]
) -> tuple[str | None, str]:
    """Returns the source and the target language of a request, as codes of the served models.

    The source language is None if the request does not give it.

    Args:
        catalog: Served models.
        source: Name and value of the parameter with the source language; without a value, the
            language is detected.
        target: Name and value of the parameter with the target language.

    Raises:
        InvalidRequestError: A value is empty.
        UnsupportedLanguageError: The server has no such language or pair. `param` of the error is
            the name of the parameter at fault.
    """
    check_given(**{name: code for name, code in (source, target) if code is not None})
    found = None if source[1] is None else _find_language(catalog, source[0], source[1])
    wanted = _find_language(catalog, *target)
    if found is not None:
        try:
            catalog.route(found, wanted)
        except UnsupportedLanguageError as error:
            error.param = target[0]
            raise
    return found, wanted


def _find_language(catalog: Catalog, name: str, code: str) -> str:
    try:
        return catalog.language(code)
    except UnsupportedLanguageError as error:
        error.param = name
        raise


@lru_cache(maxsize=256)
def decoding_options(
    beam_size: int = 1, num_hypotheses: int = 1, return_scores: bool = False
) -> DecodingOptions:
    """Returns the options of greedy decoding or of beam search.

    Calls with equal arguments return the same object. `pickle` writes this object only once in a
    message to a worker, even if several sentences in the message refer to it.
    """
    return DecodingOptions(beam_size, num_hypotheses, return_scores=return_scores)


async def find_terms(
    services: Services, glossaries: Sequence[str], source: str | None, target: str
) -> Terms | None:
    """Returns the terms that glossaries have for a source and a target language.

    If several glossaries have the same source term, the first one in `glossaries` is used. The
    result is None if `glossaries` is empty or the source language is not known.

    Raises:
        NotFoundError: A glossary does not exist, or no glossary has a dictionary for the languages.
    """
    if not glossaries or source is None:
        return None
    languages = base_language(source), base_language(target)
    return await services.glossaries.terms(glossaries, *languages)


async def translate(
    services: Services, wanted: TranslationRequest, context: RequestContext
) -> list[TranslatedText]:
    """Translates texts, and counts their characters for the API key of the request.

    Raises:
        QuotaExceededError: The key has too few characters left this month.
        ServiceError: The request is refused, misses its deadline, or fails.
    """
    async with services.quota.spent(context.account, sum(map(len, wanted.texts))):
        return await services.translator.translate(wanted, context)


async def stream(
    services: Services, wanted: TranslationRequest, context: RequestContext
) -> AsyncGenerator[TranslatedSentence, None]:
    """Yields translated sentences in order.

    The characters of all texts are counted, unless the request fails before its first sentence.

    Raises:
        QuotaExceededError: The key has too few characters left this month.
        ServiceError: The request is refused, misses its deadline, or fails.
    """
    async with aclosing(services.translator.stream(wanted, context)) as sentences:
        async with services.quota.spent(context.account, sum(map(len, wanted.texts))):
            first = await anext(sentences)
        yield first
        async for sentence in sentences:
            yield sentence
