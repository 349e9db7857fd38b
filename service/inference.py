"""Text in, text out: detect, split, tokenise, schedule, detokenise, put together."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ParamSpec, TypeVar

from model.sequence import DecodingOptions, Hypothesis
from model.tokenization import Tokenizer
from service.admission import Admission
from service.catalog import Catalog, ServedModel
from service.context import RequestContext
from service.detection import Detection, LanguageDetector
from service.fitting import fit_sentences
from service.lanes import Translated
from service.metrics import NO_MODEL, Metrics
from service.scheduler import Scheduler, Sentence
from service.segmentation import Segments, one_sentence, split_sentences
from service.settings import Settings

P = ParamSpec("P")
T = TypeVar("T")

INLINE_CHARS = 4096
"""Texts up to this length are tokenised where they are: 4 µs a sentence is less than the 50 to
100 µs of a trip to a thread."""

CHARS_PER_TOKEN = 3
"""For the estimate with which a request is admitted before it is tokenised."""

UNDETECTED = Detection("en", 0.0)
"""What LibreTranslate answers for a text in which nothing can be detected."""


@dataclass(frozen=True, slots=True)
class TranslationRequest:
    """What a client asked for, with its language codes already resolved.

    Attributes:
        texts: One or more.
        source: A served language, or None to detect one for each text.
        target: A served language.
        options: How to search.
        split_sentences: False takes each text as one sentence.
    """

    texts: Sequence[str]
    source: str | None
    target: str
    options: DecodingOptions
    split_sentences: bool = True


@dataclass(frozen=True, slots=True)
class TokenScore:
    """One target token and the natural logarithm of its probability."""

    token: str
    log_prob: float


@dataclass(frozen=True, slots=True)
class SentenceScore:
    """The normalised log-probability of a sentence, and its tokens'."""

    score: float
    tokens: list[TokenScore]


@dataclass(frozen=True, slots=True)
class TranslatedText:
    """The translation of one text.

    Attributes:
        text: The best.
        alternatives: Others, best first, none equal to it or to each other.
        detected: What the source was taken for; None where the client said it.
        scores: One for each sentence; empty where they were not asked for.
    """

    text: str
    alternatives: list[str]
    detected: Detection | None
    scores: list[SentenceScore]


@dataclass(frozen=True, slots=True)
class Prepared:
    """A text taken apart: which model it goes to, and its sentences as ids."""

    model: ServedModel | None
    segments: Segments
    sources: list[list[int]]
    detected: Detection | None


class Translator:
    """The way of a request through everything that is not HTTP.

    Args:
        catalog: What is served.
        scheduler: Who has it translated.
        admission: Who lets it in.
        detector: For texts of unknown language.
        metrics: Where cut sentences are counted.
        settings: Limits.
    """

    def __init__(
        self,
        catalog: Catalog,
        scheduler: Scheduler,
        admission: Admission,
        detector: LanguageDetector,
        metrics: Metrics,
        settings: Settings,
    ) -> None:
        self.catalog = catalog
        self.scheduler = scheduler
        self.admission = admission
        self.detector = detector
        self.metrics = metrics
        self.settings = settings

    async def translate(
        self, request: TranslationRequest, context: RequestContext
    ) -> list[TranslatedText]:
        """Translates every text of a request.

        Raises:
            ServiceError: The request is refused, late, or failed.
        """
        deadline = context.started + self.settings.request_timeout_seconds
        num_chars = sum(map(len, request.texts))
        with self.admission.reserve(num_chars // CHARS_PER_TOKEN + 1) as reservation:
            with context.stage("tokenize"):
                prepared: list[Prepared] = await run_sized(num_chars, self._prepare_all, request)
            models = {text.model.name for text in prepared if text.model}
            context.model = models.pop() if len(models) == 1 else NO_MODEL
            sentences = [
                Sentence(text.model.name, source, request.options)
                for text in prepared
                if text.model
                for source in text.sources
            ]
            self.admission.adjust(reservation, sum(len(s.source) for s in sentences))
            is_bulk = len(sentences) > self.settings.bulk_sentences
            results = await self.scheduler.run(sentences, is_bulk, deadline) if sentences else []
            for stage, seconds in (
                ("queue", [result.queue_seconds for result in results]),
                ("device", [result.device_seconds for result in results]),
            ):
                context.add(stage, max(seconds, default=0.0))
            with context.stage("detokenize"):
                return await run_sized(num_chars, self._assemble_all, prepared, results)

    def detect(self, text: str, among: Sequence[str] | None = None) -> list[Detection]:
        """The likeliest languages of a text, best first; `en` with confidence 0 for none."""
        return self.detector.detect(text, among) or [UNDETECTED]

    def detect_all(self, texts: Sequence[str]) -> list[list[Detection]]:
        """The likeliest languages of each text."""
        return [self.detect(text) for text in texts]

    def _prepare_all(self, request: TranslationRequest) -> list[Prepared]:
        return [self._prepare(text, request) for text in request.texts]

    def _prepare(self, text: str, request: TranslationRequest) -> Prepared:
        detected = None
        source = request.source
        if source is None:
            detected = self.detect(text, self.catalog.sources(request.target))[0]
            source = detected.language if detected.confidence else request.target
        model = self.catalog.model(source, request.target)
        if model is None:
            return Prepared(None, Segments((text,), ()), [], detected)
        tokenizer = model.vocabularies.source
        whole = split_sentences(text, source) if request.split_sentences else one_sentence(text)
        limit = self.settings.max_source_tokens - 1  # one is for EOS
        fitted = fit_sentences(whole, tokenizer, limit)
        if fitted.num_cut:
            self.metrics.truncated_inputs.labels("translate", model.name).inc(fitted.num_cut)
        sources = [[*ids, tokenizer.eos_id] for ids in fitted.sources]
        return Prepared(model, fitted.segments, sources, detected)

    def _assemble_all(
        self, prepared: list[Prepared], results: list[Translated]
    ) -> list[TranslatedText]:
        remaining = iter(results)
        return [
            self._assemble(text, [next(remaining).hypotheses for _ in text.sources])
            for text in prepared
        ]

    def _assemble(self, text: Prepared, sentences: list[list[Hypothesis]]) -> TranslatedText:
        if text.model is None:
            return TranslatedText(text.segments.separators[0], [], text.detected, [])
        tokenizer = text.model.vocabularies.target
        depth = max((len(hypotheses) for hypotheses in sentences), default=1)
        versions = []
        for rank in range(depth):
            chosen = [hypotheses[min(rank, len(hypotheses) - 1)] for hypotheses in sentences]
            decoded = [tokenizer.decode(hypothesis.tokens) for hypothesis in chosen]
            versions.append(text.segments.join(decoded))
        best, *others = dict.fromkeys(versions)
        scores = [sentence_score(hypotheses[0], tokenizer) for hypotheses in sentences]
        return TranslatedText(best, others, text.detected, [s for s in scores if s])


def sentence_score(hypothesis: Hypothesis, tokenizer: Tokenizer) -> SentenceScore | None:
    """The score and its parts; None where none was computed."""
    if hypothesis.score is None:
        return None
    pieces = tokenizer.pieces(hypothesis.tokens)
    tokens = [TokenScore(p, lp) for p, lp in zip(pieces, hypothesis.log_probs, strict=True)]
    return SentenceScore(hypothesis.score, tokens)


async def run_sized(
    num_chars: int, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs
) -> T:
    """Calls a function here for a short text, in a thread for a long one."""
    if num_chars <= INLINE_CHARS:
        return function(*args, **kwargs)
    return await asyncio.to_thread(function, *args, **kwargs)
