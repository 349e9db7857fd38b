"""The translation task: prepares texts, submits their sentences, and joins the translations."""

import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from functools import partial

from model.sequence import DecodingOptions, Hypothesis
from service.errors import InvalidRequestError
from service.items.result import Result
from service.items.translation import TranslationItem
from service.metrics.figures import NO_MODEL
from service.models.catalog import PIVOT, Catalog
from service.models.served import Direction
from service.settings import Settings
from service.tasks.alignment.aligner import PairAligner
from service.tasks.alignment.alignment import moved
from service.tasks.backend import Admitter
from service.tasks.context import RequestContext
from service.tasks.detection import DetectionPool
from service.tasks.threads import CHARS_PER_TOKEN, INLINE_CHARS, run_sized
from service.tasks.translation.aligning import align_words
from service.tasks.translation.fidelity import complete, guard
from service.tasks.translation.guards import GuardWarning
from service.tasks.translation.pivoting import PivotPipeline
from service.tasks.translation.prepared import Prepared, SentenceScore, sentence_score, total_chars
from service.tasks.translation.streaming import TranslatedSentence, in_order
from service.tasks.translation.tagging import insert_tags
from service.tasks.translation.terminology import use_terms
from service.text import html_text, xml_text
from service.text.carriage import load, trim
from service.text.chunking import chunk_sentences
from service.text.detection import Detection, LanguageDetector
from service.text.formatting import Formatting, lower_capitals
from service.text.glossary import Terms
from service.text.html_text import unescaped
from service.text.letters import has_letters
from service.text.protection import ProtectedText, protect
from service.text.segmentation import Segments, one_sentence, split_sentences, whole_lines
from service.text.tags import Tag, distribute, lift
from service.text.xml_text import XmlRules

CHARS_PER_SENTENCE = 8
"""Number of characters whose work takes as long as making one work item, some 2 µs."""


@dataclass(slots=True)
class TranslationRequest:
    """A request for translations, with resolved language codes.

    Attributes:
        texts: Texts to translate, at least one.
        source: Served language, or None to detect the language of each text.
        target: Served language.
        options: Options of the search.
        split_sentences: Whether texts are split into sentences. If false, a plain text is one
            sentence, and a text with markup has one sentence for each block.
        is_aligned: Whether the words of each sentence and its translation are aligned. Such a
            request is refused if no single model has the language pair, or if the model is remote.
            Such a request must not have `protects`, markup or `terms`.
        protects: Whether protected spans (placeholders, URLs, markup, rare symbols) come back
            unchanged. If true, the translations also get the case and the final punctuation of
            the texts.
        is_html: Whether the texts are HTML. Protected spans of HTML come back unchanged even
            without `protects`.
        xml: Meaning of the tags if the texts are XML, else None. Protected spans of XML come back
            unchanged even without `protects`.
        split_lines: Whether every line break ends a sentence. Ignored without `split_sentences`.
        is_bulk: Whether the sentences wait in the bulk lane even if they are few. While sentences
            wait in both lanes, the bulk lane gets fewer rows of a batch than the interactive lane.
        terms: Terms of a glossary; None if the request has no glossary. The glossary must translate
            from `source` to `target`, so `source` must not be None.
    """

    texts: Sequence[str]
    source: str | None
    target: str
    options: DecodingOptions
    split_sentences: bool = True
    is_aligned: bool = False
    protects: bool = True
    is_html: bool = False
    xml: XmlRules | None = None
    split_lines: bool = True
    is_bulk: bool = False
    terms: Terms | None = None

    @property
    def has_markup(self) -> bool:
        return self.is_html or self.xml is not None

    def words(self, text: str) -> str:
        """Returns the words of a text, without markup."""
        if self.xml is not None:
            return xml_text.plain_text(text, self.xml)
        return html_text.plain_text(text) if self.is_html else text


@dataclass(slots=True)
class TranslatedText:
    """The translation of one text.

    Attributes:
        text: Best translation.
        alternatives: Other translations, best first, all different.
        detected: Detected source language; None if the request names a source language.
        scores: Score of each sentence; empty unless the request asks for them.
        prepared: Source text, its route, and its alignments.
    """

    text: str
    alternatives: list[str]
    detected: Detection | None
    scores: list[SentenceScore]
    prepared: Prepared


@dataclass(frozen=True, slots=True)
class _Work:
    """A request that is being translated."""

    request: TranslationRequest
    options: DecodingOptions
    context: RequestContext
    prepared: list[Prepared]
    pipeline: PivotPipeline

    def end(self, results: Sequence[Result]) -> None:
        """Adds the times of all results, and the counts of the pipeline, to the context."""
        num_cut = self.context.num_cut
        for name, count in self.pipeline.num_cut.items():
            num_cut[name] = num_cut.get(name, 0) + count
        self.context.rejected.update(self.pipeline.rejected)
        self.context.add_times(results)


class Translator:
    """Prepares texts, submits their sentences to workers, and assembles the translations.

    Args:
        catalog: Served models.
        backend: Admission and device workers.
        detector: Detects the languages of texts if the request names no source.
        settings: Limits.
    """

    def __init__(
        self,
        catalog: Catalog,
        backend: Admitter,
        detector: LanguageDetector,
        settings: Settings,
    ) -> None:
        self.catalog = catalog
        self.backend = backend
        self.detection = DetectionPool(detector, settings.max_pending_detections)
        self.settings = settings
        self.aligner = PairAligner(backend, settings)

    async def translate(
        self, request: TranslationRequest, context: RequestContext
    ) -> list[TranslatedText]:
        """Translates every text of a request."""
        work = await self._begin(request, context)
        results = await self._translate(work, work.prepared)
        work.end(results)
        return await self._join(work, work.prepared, results)

    async def stream(
        self, request: TranslationRequest, context: RequestContext
    ) -> AsyncGenerator[TranslatedSentence, None]:
        """Yields the translated sentences of all texts in order.

        Each sentence is yielded as soon as it and all sentences before it are done.
        """
        work = await self._begin(request, context)
        num_chars, deadline = sum(map(len, request.texts)), work.pipeline.deadline
        parts = await run_sized(num_chars, deadline, _parts, work.prepared)
        results: list[Result] = []

        async def translate(part: Prepared) -> str:
            found = await self._translate(work, [part])
            results.extend(found)
            (translated,) = await self._join(work, [part], found)
            return translated.text

        starts = (0, 0)
        async with aclosing(in_order([partial(translate, part) for _, _, part in parts])) as found:
            for number, index, part in parts:
                text = await anext(found)
                starts = starts if index else (0, 0)
                alignments = None
                if request.is_aligned:
                    alignments = [moved(each, starts) for each in part.alignments]
                warnings = [GuardWarning(index, each.guard) for each in part.warnings]
                yield TranslatedSentence(
                    number, index, text, part.route, part.detected, alignments, warnings
                )
                starts = (starts[0] + total_chars([part]), starts[1] + len(text))
        work.end(results)

    async def _begin(self, request: TranslationRequest, context: RequestContext) -> "_Work":
        """Admits a request and prepares its texts."""
        deadline = context.deadline(self.settings.request_timeout_seconds)
        num_chars = sum(map(len, request.texts))
        estimate = num_chars // CHARS_PER_TOKEN + 1
        lease = await context.admit(self.backend, estimate, at_once=num_chars > INLINE_CHARS)
        started = time.perf_counter()
        try:
            prepared = await self._prepare_all(request, num_chars, deadline)
        finally:
            context.add("tokenize", time.perf_counter() - started)
        num_sentences = num_tokens = 0
        for text in prepared:
            num_sentences += len(text.sources)
            num_tokens += len(text.route) * sum(map(len, text.sources))
        describe(prepared, context)
        is_bulk = request.is_bulk or num_sentences > self.settings.bulk_sentences
        limit = self.settings.max_source_tokens
        pipeline = PivotPipeline(lease, limit, is_bulk, deadline, num_tokens)
        options = request.options
        if request.is_aligned:
            options = replace(options, return_attention=True)
        return _Work(request, options, context, prepared, pipeline)

    async def _translate(self, work: "_Work", prepared: list[Prepared]) -> list[Result]:
        """Translates texts or parts of texts; returns the result of each sentence."""
        options, pipeline, context = work.options, work.pipeline, work.context
        num_sentences, has_spans, has_tags = 0, False, False
        for text in prepared:
            num_sentences += len(text.sources)
            has_spans = has_spans or bool(text.carriage.carriers)
            has_tags = has_tags or bool(text.tags)

        def make_items() -> list[TranslationItem]:
            items: list[TranslationItem] = []
            for text in prepared:
                items += text.items(options, pipeline)
            return items

        size = CHARS_PER_SENTENCE * num_sentences
        results = await pipeline.run(await run_sized(size, pipeline.deadline, make_items))
        if work.request.terms is not None:
            await use_terms(prepared, results, work.request.terms, options, pipeline)
            has_spans = True
        if has_spans:
            results = await complete(prepared, results, options, pipeline)
        if beam_size := self.settings.guard_beam_size:
            beam_size = min(beam_size, self.settings.max_beam_size)
            await guard(prepared, results, options, pipeline, beam_size)
        if has_tags:
            await insert_tags(prepared, results, self.aligner, context, pipeline.deadline)
        if work.request.is_aligned:
            await align_words(prepared, results, self.aligner, context, pipeline.deadline)
        return results

    async def _join(
        self, work: "_Work", prepared: list[Prepared], results: list[Result]
    ) -> list[TranslatedText]:
        """Returns the translations of texts or parts of texts."""
        num_chars = total_chars(prepared)
        started = time.perf_counter()
        try:
            return await run_sized(num_chars, work.pipeline.deadline, assemble, prepared, results)
        finally:
            work.context.add("detokenize", time.perf_counter() - started)

    async def _prepare_all(
        self, request: TranslationRequest, num_chars: int, deadline: float
    ) -> list[Prepared]:
        detected: Sequence[Detection | None] = [None] * len(request.texts)
        if request.source is None:
            words = await run_sized(
                num_chars, deadline, lambda: [*map(request.words, request.texts)]
            )
            sources = self.catalog.sources(request.target)
            found = await self.detection.detect(words, deadline, sources)
            detected = [each[0] for each in found]
        catalog = self.catalog

        def prepare() -> list[Prepared]:
            prepared = []
            for text, language in zip(request.texts, detected, strict=True):
                prepared.append(self._prepare(text, request, catalog, language))
            return prepared

        return await run_sized(num_chars, deadline, prepare)

    def _prepare(
        self,
        text: str,
        request: TranslationRequest,
        catalog: Catalog,
        detected: Detection | None,
    ) -> Prepared:
        source = request.source
        if detected is not None:
            source = detected.language if detected.confidence else request.target
        assert source is not None  # the request names it, or it was detected
        route = catalog.route(source, request.target)
        if not route:
            return Prepared((), Segments((text,), ()), [], detected)
        if request.is_aligned and len(route) > 1:
            raise InvalidRequestError(
                f"Invalid request: no single model translates from {source} to {request.target}, "
                f"and words are not aligned through {PIVOT}; leave return_alignment out, or "
                f"translate to {PIVOT} and from it in two requests"
            )
        if request.is_aligned and not route[0].has_attention:
            raise no_attention(route[0].name)
        tokenizer = route[0].vocabularies.source
        protected, tags = self._protect(text, request, route)
        text = protected.text
        if request.protects and not has_letters(text):
            segments = Segments((text,), ())
        elif request.split_sentences:
            segments = split_sentences(text, source, request.split_lines)
        else:
            segments = whole_lines(text) if request.has_markup else one_sentence(text)
        limit = route[0].limit(self.settings.max_source_tokens) - 1  # without EOS
        chunked = chunk_sentences(trim(segments, protected), tokenizer, limit)
        formatting = Formatting()
        if request.protects:
            formatting = Formatting(chunked.segments.sentences, (source, request.target))
            lower_capitals(chunked, tokenizer, limit, source)
        segments, inside = distribute(chunked.segments, tags)
        carriage = load(chunked, protected, inside, tokenizer, limit)
        for ids in chunked.sources:
            ids.append(tokenizer.eos_id)
        return Prepared(
            route,
            segments,
            chunked.sources,
            detected,
            chunked.num_cut,
            carriage,
            limit,
            inside,
            formatting=formatting,
        )

    def _protect(
        self, text: str, request: TranslationRequest, route: tuple[Direction, ...]
    ) -> tuple[ProtectedText, list[Tag]]:
        """Returns the text with markers for protected spans, and the inline tags that it had.

        On a route of two models, there is no attention between source and target words, and a
        remote model gives no attention. In these two cases the tags stay in the text as markers.
        """
        if request.has_markup:
            unknown = unknown_to(route, unescaped(text))
            markup = (
                html_text.protect_html(text, unknown)
                if request.xml is None
                else xml_text.protect_xml(text, request.xml, unknown)
            )
            can_align = len(route) == 1 and route[0].has_attention
            return lift(markup) if can_align else (markup, [])
        if request.protects:
            return protect(text, unknown_to(route, text)), []
        return ProtectedText(text, ()), []


def assemble(prepared: Sequence[Prepared], results: Sequence[Result]) -> list[TranslatedText]:
    """Returns the translations of texts from the results of all their sentences, in order."""
    translated, start = [], 0
    for text in prepared:
        if not text.route:
            unchanged = text.segments.separators[0]
            translated.append(TranslatedText(unchanged, [], text.detected, [], text))
            continue
        sentences = []
        for result in results[start : start + len(text.sources)]:
            sentences.append(result.value)
        start += len(sentences)
        translated.append(_assemble(text, sentences))
    return translated


def _assemble(text: Prepared, sentences: list[list[Hypothesis]]) -> TranslatedText:
    _, tokenizer = text.tokenizers
    depth = max(map(len, sentences), default=1)
    versions: dict[str, None] = {}
    for rank in range(depth):
        decoded = []
        for index, found in enumerate(sentences):
            decoded.append(text.decode(index, found, rank))
        if (version := text.joined(decoded)) is not None:
            versions[version] = None
    best, *others = versions
    scores = []
    for hypotheses in sentences:
        if hypotheses[0].score is not None:
            scores.append(sentence_score(hypotheses[0], tokenizer))
    return TranslatedText(best, others, text.detected, scores, text)


def _parts(prepared: Sequence[Prepared]) -> list[tuple[int, int, Prepared]]:
    """Returns each sentence as a text, with the indices of its text and of the sentence."""
    return [
        (number, index, part)
        for number, text in enumerate(prepared)
        for index, part in enumerate(text.parts())
    ]


def unknown_to(route: Sequence[Direction], text: str) -> set[str]:
    """Returns the characters of a text that at least one source vocabulary does not have."""
    unknown: set[str] = set()
    for each in route:
        unknown |= each.vocabularies.source.unknown_in(text)
    return unknown


def no_attention(name: str) -> InvalidRequestError:
    """Returns the error for a request that needs the attention of a remote model."""
    return InvalidRequestError(
        f"Invalid request: {name} is a remote model and has no attention; name a model whose files "
        "are on this server"
    )


def describe(prepared: list[Prepared], context: RequestContext) -> None:
    """Adds the model's name, and the number of cut sentences of each model, to the context."""
    models = set()
    for text in prepared:
        for direction in text.route:
            models.add(direction.name)
        if text.num_cut:
            name = text.route[0].name
            context.num_cut[name] = context.num_cut.get(name, 0) + text.num_cut
    context.model = models.pop() if len(models) == 1 else NO_MODEL
