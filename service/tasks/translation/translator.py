"""The translation task: prepares texts, submits their sentences, and joins the translations."""

import asyncio
import time
from collections import deque
from collections.abc import AsyncGenerator, Callable, Coroutine, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain, islice
from typing import Any, TypeVar

from model.sequence import DecodingOptions
from service.errors import DeadlineExceededError, InvalidRequestError, too_late
from service.metrics.figures import NO_MODEL
from service.models.catalog import Catalog
from service.models.routes import PIVOT
from service.models.served import Direction, NotLoadedError
from service.settings import Settings
from service.tasks.alignment.aligner import PairAligner
from service.tasks.alignment.alignment import in_given, moved
from service.tasks.backend import Admitter
from service.tasks.context import RequestContext
from service.tasks.detection import DetectionPool
from service.tasks.threads import CHARS_PER_TOKEN, run_sized
from service.tasks.translation import phrases
from service.tasks.translation.aligning import align_words, insert_tags
from service.tasks.translation.fidelity import complete, guard
from service.tasks.translation.messages import TranslatedMessage, extend_all
from service.tasks.translation.neighbors import Neighbors, give_context
from service.tasks.translation.pivoting import PivotPipeline
from service.tasks.translation.sentences import MAX_TAGS, Sentence, TranslatedText, total_chars
from service.tasks.translation.terminology import give_terms, use_terms
from service.text import html_text, xml_text
from service.text.adjacent import join_indices, separated
from service.text.attributes import values_in
from service.text.carriage import trim
from service.text.characters import cleaned, origins
from service.text.chunking import chunk_sentences
from service.text.detection import Detection, LanguageDetector
from service.text.entities import named_entities
from service.text.formatting import lower_capitals, with_key_first
from service.text.glossary import Terms
from service.text.letters import has_letters
from service.text.markup import NO_ENTITIES, protect_markup
from service.text.messages import Message, read_message, without_syntax
from service.text.protection import MARKER, ProtectedText, UnknownSpans, merged, protect
from service.text.segmentation import (
    BARS,
    MAX_REPEATED_CHARS,
    Segments,
    in_one_line,
    in_paragraphs,
    one_sentence,
    split_repeated,
    split_sentences,
    whole_blocks,
)
from service.text.tags import Tag, distribute, lift
from service.text.typography import FOLDED, folded
from service.text.xml_text import XmlRules

T = TypeVar("T")

AHEAD_PER_TAKEN = 4
"""Number by which the limit on open sentences grows with each sentence that the reader takes.

A sentence is open from the start of its translation until the reader takes it. The limit is 1 at
first, because sentences that begin together delay each other. They also delay the first sentences
of other streams.
"""

MAX_AHEAD = 256
"""Largest limit on open sentences, however many sentences the reader has taken.

If the reader stops, at most MAX_AHEAD sentences are translated in vain. The two workers of a small
machine together decode 128 sentences at once. The limit is above 128, so that one stream can keep
both workers busy.
"""


PREFIX_PER_SOURCE_TOKEN = 2
"""Largest number of given target tokens for each source token. Models write three at most."""


@dataclass(slots=True)
class TranslationRequest:
    """A request for translations, with resolved language codes."""

    texts: Sequence[str]
    source: str | None  # None to detect the language of each text
    target: str
    options: DecodingOptions
    # If false, a plain text is one sentence, and a text with markup has one for each block.
    split_sentences: bool = True
    # Whether the words of each sentence and its translation are aligned. The request is refused if
    # no single model of this server has the language pair. It must not have markup or `terms`.
    is_aligned: bool = False
    is_html: bool = False
    xml: XmlRules | None = None  # meaning of the tags if the texts are XML
    # Whether every line break ends a sentence. Ignored without `split_sentences`. If false, a line
    # break of HTML still ends a paragraph or an item of a list.
    split_lines: bool = True
    is_bulk: bool = False  # whether the sentences wait in the bulk lane even if they are few
    terms: Terms | None = None  # of a glossary from `source`, which must not be None, to `target`
    # The beginning of each text's translation, or nothing. A text with a beginning must be one
    # sentence, and a single model of this server must have the language pair.
    prefixes: Sequence[str] = ()
    # For the prompts of remote models; None if `texts` are neighbours of each other.
    neighbors: Neighbors | None = None

    @property
    def has_markup(self) -> bool:
        return self.is_html or self.xml is not None

    def words(self, text: str, is_part: bool = False) -> str:
        """Returns the words of a text, without markup and without the syntax of messages.

        A part of a text, such as a sentence, may have a start tag without its end tag.
        """
        if "{" in text:
            text = without_syntax(text, self.has_markup)
        if self.xml is not None and not is_part:
            return xml_text.plain_text(text, self.xml)
        return html_text.plain_text(text) if self.has_markup else text


class Translator:
    """Prepares texts, submits their sentences to workers, and assembles the translations."""

    def __init__(
        self, catalog: Catalog, backend: Admitter, detector: LanguageDetector, settings: Settings
    ) -> None:
        self.catalog = catalog
        self.backend = backend
        self.detection = DetectionPool(detector, settings.max_pending_detections)
        self.settings = settings
        self.aligner = PairAligner(backend, settings)
        # Whether a model may read the texts around a text. Remote models do not change.
        self.reads_context = bool(catalog.remote and settings.remote_context_texts)

    async def translate(
        self, request: TranslationRequest, context: RequestContext
    ) -> list[TranslatedText]:
        texts, pipeline = await self._begin(request, context)
        await self._translate(request, texts, pipeline, context)
        context.add_times([each.result for each in _sentences(texts)])
        await _join(texts, pipeline, context)
        if request.is_aligned:
            for text in texts:
                _locate(text)
        return texts

    async def stream(
        self, request: TranslationRequest, context: RequestContext
    ) -> AsyncGenerator[TranslatedText, None]:
        """Yields the translated sentences of all texts in order, each as a text of its own.

        Each sentence is yielded as soon as it and all sentences before it are done. Alignments
        count code points from the start of the whole text.
        """
        texts, pipeline = await self._begin(request, context)
        num_chars = sum(map(len, request.texts))
        parts = await run_sized(
            num_chars, pipeline.deadline, lambda: [part for text in texts for part in text.parts()]
        )

        async def translate(part: TranslatedText) -> TranslatedText:
            await self._translate(request, [part], pipeline, context)
            await _join([part], pipeline, context)
            return part

        starts = (0, 0)
        async with aclosing(in_order([partial(translate, part) for part in parts])) as translated:
            async for part in translated:
                starts = starts if part.index else (0, 0)
                if part.alignments is not None:
                    length = part.source_length()
                    part.alignments = [moved(each, *starts) for each in part.alignments]
                    _locate(part)
                    starts = (starts[0] + length, starts[1] + len(part.text))
                yield part
        context.add_times([each.result for each in _sentences(parts)])

    async def _begin(
        self, request: TranslationRequest, context: RequestContext
    ) -> tuple[list[TranslatedText], PivotPipeline]:
        """Admits a request and prepares its texts."""
        settings = self.settings
        deadline = context.deadline
        num_chars = sum(map(len, request.texts))
        estimate = num_chars // CHARS_PER_TOKEN + 1
        lease = await context.admit(self.backend, estimate, num_chars)
        started = time.perf_counter()
        try:
            texts = None
            while texts is None:
                try:
                    texts = await self._prepare_all(request, num_chars, deadline)
                except NotLoadedError as missing:
                    await context.wait_for_models(self.backend, missing.names)
        finally:
            context.add("tokenize", time.perf_counter() - started)
        sentences = _sentences(texts)
        num_tokens = 0
        for sentence in sentences:
            num_tokens += len(sentence.text.route) * len(sentence.ids)
        describe(texts, context)
        if self.reads_context:
            neighbors = request.neighbors or Neighbors(request.texts)
            num_before = settings.remote_context_texts
            await give_context(texts, request.texts, neighbors, request.words, num_before, deadline)
        is_bulk = request.is_bulk or len(sentences) > settings.bulk_sentences
        options = request.options
        if request.is_aligned:
            options = replace(options, return_attention=True)
        limit = settings.max_source_tokens
        counts = context.num_cut, context.rejected
        pipeline = PivotPipeline(lease, options, limit, is_bulk, deadline, num_tokens, *counts)
        return texts, pipeline

    async def _translate(
        self,
        request: TranslationRequest,
        texts: list[TranslatedText],
        pipeline: PivotPipeline,
        context: RequestContext,
    ) -> None:
        """Translates texts or parts of texts."""
        sentences, messages = _sentences(texts), []
        for text in texts:
            if isinstance(text, TranslatedMessage):
                messages.append(text)
        settings, largest = self.settings, self.settings.max_beam_size
        if request.terms is not None:
            await give_terms(sentences, request.terms, pipeline)
        await phrases.translate(sentences, pipeline, min(settings.phrase_beam_size, largest))
        if request.terms is not None:
            await use_terms(sentences, request.terms, pipeline)
        if with_spans := [each for each in sentences if each.has_spans]:
            await complete(with_spans, pipeline)
        if beam_size := settings.guard_beam_size:
            short_beam_size = largest if settings.phrase_beam_size else 0
            await guard(sentences, pipeline, min(beam_size, largest), short_beam_size)
        if messages or request.has_markup:
            await insert_tags(sentences, self.aligner, context, pipeline.deadline)
        if request.is_aligned:
            await align_words(texts, self.aligner, context, pipeline.deadline)
        if messages:
            await self._complete_messages(request, messages, pipeline, context)

    async def _complete_messages(
        self,
        request: TranslationRequest,
        messages: Sequence[TranslatedMessage],
        pipeline: PivotPipeline,
        context: RequestContext,
    ) -> None:
        """Translates sentences of messages until each message can be written."""
        size = total_chars(messages)
        # With `xml`, the inline tags are inserted. The texts are prepared already.
        part = replace(request, is_aligned=False, xml=request.xml or XmlRules())
        while texts := await run_sized(size, pipeline.deadline, extend_all, messages):
            await self._translate(part, texts, pipeline, context)

    async def _prepare_all(
        self, request: TranslationRequest, num_chars: int, deadline: float
    ) -> list[TranslatedText]:
        detected: Sequence[Detection | None] = [None] * len(request.texts)
        if request.source is None:
            words = await run_sized(
                num_chars, deadline, lambda: [*map(request.words, request.texts)]
            )
            sources = self.catalog.sources(request.target)
            found = await self.detection.detect(words, deadline, sources)
            detected = [each[0] for each in found]
        catalog, limit = self.catalog, self.settings.max_source_tokens
        prepare_text = prepare_html if request.is_html else prepare

        def prepare_all() -> list[TranslatedText]:
            texts = []
            for number, language in enumerate(detected):
                text = request.texts[number]
                message = read_message(text, request.has_markup) if "{" in text else None
                arguments = request, number, language, catalog, limit
                if message is None:
                    texts.append(prepare_text(*arguments))
                else:
                    texts.append(prepare_message(message, *arguments))
            for prepared, prefix in zip(texts, request.prefixes, strict=False):
                if prefix.strip():
                    give_prefix(prepared, prefix)
            return texts

        return await run_sized(num_chars, deadline, prepare_all)


def prepare(
    request: TranslationRequest,
    number: int,
    detected: Detection | None,
    catalog: Catalog,
    max_source_tokens: int,
) -> TranslatedText:
    """Returns the text `number` of a request with its route and its tokenised sentences."""
    text, source = request.texts[number], request.source
    if detected is not None:
        source = detected.language if detected.confidence else request.target
    assert source is not None  # the request names it, or it was detected
    route = catalog.route(source, request.target)
    has_markup = request.has_markup
    if not route or not (has_markup or has_letters(text)):
        return TranslatedText(route, detected, (text,), number=number)
    if request.is_aligned and len(route) > 1:
        raise InvalidRequestError(
            f"Invalid request: no single model translates from {source} to {request.target}, "
            f"and words are not aligned through {PIVOT}; leave return_alignment out, or "
            f"translate to {PIVOT} and from it in two requests"
        )
    if request.is_aligned and not route[0].has_attention:
        raise no_attention(route[0].name)
    tokenizer = route[0].vocabularies.source
    unknown, tags = unknown_to(route), list[Tag]()
    if has_markup:
        protected, tags = _protect_markup(text, request, route, unknown)
    else:
        is_aligned, words = request.is_aligned, cleaned(text)
        words = words if is_aligned else with_key_first(words, tokenizer)
        protected = protect(words, unknown, is_aligned)
    segments = _segments(protected, request, source, route[0].paragraph_chars)
    segments = trim(segments, protected)
    limit = route[0].limit(max_source_tokens) - 1  # without EOS
    chunked = chunk_sentences(segments, tokenizer, limit)
    given = chunked.segments.sentences
    lower_capitals(chunked, tokenizer, limit, source)
    segments, inside = distribute(chunked.segments, tags)
    languages, separators = (source, request.target), segments.separators
    prepared = TranslatedText(route, detected, separators, [], languages, protected, limit)
    prepared.num_cut, prepared.number = chunked.num_cut, number
    if request.is_aligned and cleaned(text) != text:
        prepared.origins = origins(text)
    for index, ids in enumerate(chunked.sources):
        ids += tokenizer.source_end
        sentence = Sentence(prepared, index, segments.sentences[index], ids, given[index])
        prepared.sentences.append(sentence)
        if protected.spans:
            sentence.tags = inside.get(index, ())
            has_spans = MARKER.search(sentence.source) or len(sentence.tags) > MAX_TAGS
            if has_spans and sentence.load(0):
                sentence.ids = sentence.carrier_ids
    return prepared


def give_prefix(text: TranslatedText, prefix: str) -> None:
    """Lets the translation of a text begin with `prefix`."""

    def refused(reason: str) -> InvalidRequestError:
        return InvalidRequestError(f"Invalid request: {reason}", param="target_prefix")

    if len(text.route) > 1:
        raise refused("two models translate this pair; target_prefix needs a single model")
    if text.route and not text.route[0].has_attention:
        raise refused(f"{text.route[0].name} is a remote model and takes no target_prefix")
    if len(text.sentences) != 1:
        raise refused(
            f"target_prefix needs a text of one sentence, not of {len(text.sentences)}; send each "
            "sentence alone, or split_sentences=false"
        )
    (sentence,), (direction,) = text.sentences, text.route
    tokenizer = direction.vocabularies.target
    # Earlier translations have the quotes and dashes of the source, which no model has written.
    read = folded(prefix, FOLDED.keys(), keeps_length=False)
    if spans := tokenizer.unknown_spans(read):
        characters = ", ".join(dict.fromkeys(read[start:end] for start, end in spans))
        raise refused(f"target_prefix has characters that the model does not write: {characters}")
    ids, limit = tokenizer.encode(read), len(sentence.ids) * PREFIX_PER_SOURCE_TOKEN
    if len(ids) > limit:
        raise refused(f"target_prefix has {len(ids)} tokens; the limit for this text is {limit}")
    sentence.prefix, sentence.given_prefix = tuple(ids), prefix.strip()


def prepare_message(
    message: Message,
    request: TranslationRequest,
    number: int,
    detected: Detection | None,
    catalog: Catalog,
    max_source_tokens: int,
) -> TranslatedText:
    """Returns a message with the texts that must be translated first."""
    rules = XmlRules() if message.has_xml_tags else request.xml
    part = replace(request, xml=rules)
    prepare_text = prepare_html if request.is_html else prepare

    def prepare_part(text: str) -> TranslatedText:
        return prepare_text(replace(part, texts=[text]), 0, detected, catalog, max_source_tokens)

    empty = prepare_part("")
    if not empty.route:
        return prepare(request, number, detected, catalog, max_source_tokens)
    translated = TranslatedMessage(
        empty.route,
        detected,
        (),
        languages=empty.languages,
        number=number,
        alignments=[] if request.is_aligned else None,
        message=message,
        prepare=prepare_part,
        split=lambda text: _segments(ProtectedText(text, ()), part, empty.languages[0]),
    )
    translated.extend()
    return translated


def prepare_html(
    request: TranslationRequest,
    number: int,
    detected: Detection | None,
    catalog: Catalog,
    max_source_tokens: int,
) -> TranslatedText:
    """Returns a text in HTML with the attributes of its tags."""
    text = prepare(request, number, detected, catalog, max_source_tokens)
    plain = replace(request, is_html=False, split_lines=True)
    num_sentences = len(text.sentences)
    for value in values_in(text.protected.spans):
        attribute = prepare(replace(plain, texts=[value]), 0, detected, catalog, max_source_tokens)
        for sentence in attribute.sentences:
            sentence.index += num_sentences
        num_sentences += len(attribute.sentences)
        text.attributes[value] = attribute
    return text


def _sentences(texts: Sequence[TranslatedText]) -> list[Sentence]:
    sentences: list[Sentence] = []
    for text in texts:
        sentences += text.sentences
        for attribute in text.attributes.values():
            sentences += attribute.sentences
    return sentences


def _segments(
    protected: ProtectedText, request: TranslationRequest, source: str, paragraph_chars: int = 0
) -> Segments:
    text = protected.text
    if not has_letters(text):
        return Segments((text,), ())
    if request.split_sentences:
        bars = BARS + "".join(protected.markers([*BARS]))
        segments = split_sentences(text, source, request.split_lines, bars)
        if paragraph_chars:
            segments = in_paragraphs(segments, paragraph_chars)
        elif len(segments.sentences) > 1 or len(text) <= MAX_REPEATED_CHARS:
            segments = split_repeated(segments)
    else:
        segments = whole_blocks(text) if request.has_markup else one_sentence(text)
    return in_one_line(segments) if request.has_markup else segments


def _protect_markup(
    text: str, request: TranslationRequest, route: tuple[Direction, ...], unknown: UnknownSpans
) -> tuple[ProtectedText, list[Tag]]:
    """Returns the text with markers for protected spans, and the inline tags that it had.

    On a route of two models, there is no attention between source and target words, and a remote
    model gives no attention. In these two cases the tags stay in the text as markers.
    """
    rules = request.xml
    tokens = html_text.read_html(text) if rules is None else xml_text.read_xml(text, rules)
    vocabulary = route[0].vocabularies.source
    tokens = separated(join_indices(tokens), lambda word: len(vocabulary.encode(word)))
    markup = protect_markup(
        tokens,
        unknown,
        ends_paragraphs=request.is_html and request.split_sentences,
        entities=named_entities(text) if request.xml is not None else NO_ENTITIES,
    )
    can_align = len(route) == 1 and route[0].has_attention
    return lift(markup) if can_align else (markup, [])


async def _join(
    texts: Sequence[TranslatedText], pipeline: PivotPipeline, context: RequestContext
) -> None:
    def assemble() -> None:
        for text in texts:
            text.assemble()

    started = time.perf_counter()
    try:
        await run_sized(total_chars(texts), pipeline.deadline, assemble)
    finally:
        context.add("detokenize", time.perf_counter() - started)


def _locate(text: TranslatedText) -> None:
    """Converts the alignments of a text to code points of the text as it was given."""
    if text.origins and text.alignments:
        text.alignments = [in_given(each, text.origins) for each in text.alignments]


async def in_order(
    works: Sequence[Callable[[], Coroutine[Any, Any, T]]],
) -> AsyncGenerator[T, None]:
    """Runs coroutine functions side by side, and yields their results in order.

    Each result that the reader takes allows more coroutines to begin. While the reader takes no
    result, no coroutine begins. When the reader closes the iterator, unfinished coroutines are
    cancelled.
    """
    begun: deque[asyncio.Task[T]] = deque()
    waiting = iter(works)
    try:
        for taken in range(len(works)):
            ahead = min(MAX_AHEAD, 1 + AHEAD_PER_TAKEN * taken)
            for work in islice(waiting, max(0, ahead - len(begun))):
                begun.append(asyncio.create_task(work()))
            try:
                result = await begun.popleft()
            except DeadlineExceededError:
                raise too_late(taken, len(works)) from None
            yield result
    finally:
        for task in begun:
            task.cancel()
        await asyncio.gather(*begun, return_exceptions=True)


def unknown_to(route: Sequence[Direction]) -> UnknownSpans:
    """Returns a function that finds the spans unknown to at least one source vocabulary."""
    if len(route) == 1:
        return route[0].vocabularies.source.unknown_spans
    finders = [each.vocabularies.source.unknown_spans for each in route]
    return lambda text: merged(sorted(chain.from_iterable(find(text) for find in finders)))


def no_attention(name: str) -> InvalidRequestError:
    """Returns the error for a request that needs the attention of a remote model."""
    return InvalidRequestError(
        f"Invalid request: {name} is a remote model and has no attention; name a model whose files "
        "are on this server"
    )


def describe(texts: Sequence[TranslatedText], context: RequestContext) -> None:
    """Adds the model's name, and the number of cut sentences of each model, to the context."""
    models = set()
    for text in texts:
        for direction in text.route:
            models.add(direction.name)
        if text.num_cut:
            name = text.route[0].name
            context.num_cut[name] = context.num_cut.get(name, 0) + text.num_cut
    context.model = models.pop() if len(models) == 1 else NO_MODEL
