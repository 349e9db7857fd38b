"""Attention for a request: texts to tokens, translations where none are given, and what is asked.

A sentence is translated first, as /translate does it, and then read once more together with its
translation: one pass, the same for a translation that the client brings.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import cast

from model.config import ModelConfig
from model.inspection.query import AttentionJob, AttentionQuery
from model.inspection.trace import AttentionTrace
from model.sequence import DecodingOptions
from model.tokenization.tokenizer import TokenizedText, Tokenizer
from service.errors import (
    InvalidRequestError,
    NotFoundError,
    RequestTooLargeError,
    UnavailableError,
    UnsupportedLanguageError,
)
from service.items.attention import AttentionItem
from service.items.result import Result
from service.items.translation import TranslationItem
from service.models.catalog import Catalog
from service.models.served import Direction, ServedModel
from service.settings import Settings
from service.tasks.attention.alignment import Alignment
from service.tasks.attention.pairs import (
    Pair,
    align_text,
    assemble,
    maps_size,
    model_name,
    pairs_of,
)
from service.tasks.attention.query import (
    aligner_of,
    attention_query,
    check_size,
    start_token,
    steps_query,
)
from service.tasks.attention.requests import InspectionRequest, ModelChoice, TraceRequest
from service.tasks.attention.results import (
    Inspection,
    SteppedThrough,
    compute,
    count_long,
    item_name,
    nothing_to_read,
)
from service.tasks.backend import Backend
from service.tasks.context import RequestContext
from service.tasks.translation import (
    CHARS_PER_TOKEN,
    INLINE_CHARS,
    TranslatedText,
    run_sized,
)
from service.text.chunking import chunk_sentences
from service.text.detection import LanguageDetector
from service.text.segmentation import split_sentences


@dataclass(frozen=True, slots=True)
class Wanted:
    """What is asked of a model.

    Attributes:
        model: And its languages.
        config: Its own.
    """

    model: Direction
    config: ModelConfig

    @property
    def start(self) -> str:
        """What its decoder starts from, for people."""
        return start_token(self.config, self.model.vocabularies.target)


class Inspector:
    """The way of a request about attention through everything that is not HTTP.

    Args:
        catalog: What is served.
        backend: Who lets it in and has it computed.
        detector: For texts of unknown language.
        settings: Limits.
    """

    def __init__(
        self, catalog: Catalog, backend: Backend, detector: LanguageDetector, settings: Settings
    ) -> None:
        self.catalog = catalog
        self.backend = backend
        self.detector = detector
        self.settings = settings

    async def inspect(self, request: InspectionRequest, context: RequestContext) -> Inspection:
        """Attention and alignment of every text or, with `split`, of every sentence.

        Raises:
            ServiceError: The request is refused, late, or failed.
        """
        wanted = await self._wanted(request, request.texts, context)
        query = attention_query(wanted.config, request)
        aligner = aligner_of(
            wanted.config, request.alignment_layer, request.alignment_head, request.alignment_shift
        )
        sources = await self._tokenize(request.texts, wanted, request.is_split, context)
        self._check_size(query, [(len(source.ids), 1) for source in sources], request.view.top_k)
        targets = request.target_texts or [None] * len(sources)
        pairs = await self._pairs(wanted, sources, targets, context)
        self._check_size(query, [pair.lengths for pair in pairs], request.view.top_k)
        name, queries = wanted.model.name, (query, aligner.query)
        items = [AttentionItem(name, AttentionJob(*pair.ids, queries)) for pair in pairs]
        shown = await self._compute(items, context)
        with context.stage("detokenize"):
            shown_items = await run_sized(
                sum(maps_size(each) for each in shown),
                assemble, pairs, shown, (query, aligner), wanted.start, request.view,
            )  # fmt: skip
        return Inspection(name, shown_items)

    async def step_through(self, request: TraceRequest, context: RequestContext) -> SteppedThrough:
        """The computation of one token's attention.

        Raises:
            ServiceError: The request is refused, late, or failed.
        """
        wanted = await self._wanted(request, [request.text], context)
        steps_query(wanted.config, replace(request, query=0), 1, 1)
        sources = await self._tokenize([request.text], wanted, False, context)
        (pair,) = await self._pairs(wanted, sources, [request.target_text], context)
        query = steps_query(wanted.config, request, *pair.lengths)
        item = AttentionItem(wanted.model.name, AttentionJob(*pair.ids, (query,)))
        (shown,) = await self._compute([item], context)
        steps = cast("AttentionTrace", shown.value[0])
        return SteppedThrough(
            wanted.model.name, query, pair.source, pair.target, wanted.start, steps
        )

    async def align(
        self, translations: Sequence[TranslatedText], context: RequestContext
    ) -> list[list[Alignment]]:
        """Which word became which, in every sentence of translated texts; words in code points.

        Raises:
            ServiceError: It is refused, late, or failed.
        """
        models = {each.name: each for t in translations for each in t.prepared.route}
        aligners = {
            name: aligner_of((await self._loaded(model)).config) for name, model in models.items()
        }
        num_chars = sum(len(translation.text) for translation in translations)
        pairs = await run_sized(num_chars, lambda: list(map(pairs_of, translations)))
        items = [
            AttentionItem(name, AttentionJob(*pair.ids, (aligners[name].query,)))
            for translation, found in zip(translations, pairs, strict=True)
            for name in [model_name(translation)]
            for pair in found
        ]
        shown: list[Result] = []
        for some in in_parts(items, self.settings.max_attention_values):
            shown += await self._compute(some, context)
        answers = iter(shown)
        return await run_sized(
            num_chars,
            lambda: [
                align_text(translation, found, answers, aligners.get(model_name(translation)))
                for translation, found in zip(translations, pairs, strict=True)
            ],
        )

    async def _wanted(
        self, question: ModelChoice, texts: Sequence[str], context: RequestContext
    ) -> Wanted:
        """Which model is asked; it is loaded.

        Raises:
            NotFoundError: There is none of that name.
            UnsupportedLanguageError: No model translates from and to these languages.
            InvalidRequestError: Both languages are the same, or not those of the model.
            UnavailableError: It is not loaded.
        """
        model = await self._model(question, texts)
        context.model = model.name
        return await self._loaded(model)

    async def _loaded(self, model: Direction) -> Wanted:
        resident = (await self.backend.status()).models.get(model.name)
        if resident is None or resident.config is None:
            raise UnavailableError("the models are loading; try again soon", 1)
        return Wanted(model, resident.config)

    async def _model(self, question: ModelChoice, texts: Sequence[str]) -> Direction:
        if question.model is not None:
            model = self.catalog.models.get(question.model)
            if model is None:
                known = ", ".join(self.catalog.models)
                raise NotFoundError(f"there is no model {question.model[:64]}; there are {known}")
            return self._direction(question, model)
        target = self.catalog.language(question.target or "")
        source = await self._source(question, target, texts)
        route = self.catalog.route(source, target)
        if not route:
            raise InvalidRequestError(
                f"Invalid request: nothing is translated from {target} to {target}; "
                "name two languages, or a model"
            )
        if len(route) > 1:
            models = " and ".join(direction.name for direction in route)
            raise InvalidRequestError(
                f"Invalid request: no one model translates from {source} to {target}; "
                f"ask about {models}, one after the other"
            )
        return route[0]

    async def _source(self, question: ModelChoice, target: str, texts: Sequence[str]) -> str:
        """The language of the texts, all of which are taken to be in the first one's."""
        code = question.source or "auto"
        if code.strip().lower() != "auto":
            return self.catalog.language(code)
        candidates = [code for code in self.catalog.sources(target) if code != target]
        if not candidates:
            raise UnsupportedLanguageError(
                f"nothing is translated to {target}; GET /languages lists what is"
            )
        text = texts[0]
        detected = await run_sized(len(text), self.detector.detect, text, candidates)
        return detected[0].language if detected else candidates[0]

    def _direction(self, question: ModelChoice, model: ServedModel) -> Direction:
        """The pair that is asked about of a model that is named."""
        if model.files.source:
            self._check_languages(question, model)
            return model.direction(model.files.source, model.files.target)
        source, target = question.source or "auto", question.target
        if target is None or source.strip().lower() == "auto":
            raise InvalidRequestError(
                f"Invalid request: {model.name} has many languages; name source and target"
            )
        return model.direction(self.catalog.language(source), self.catalog.language(target))

    def _check_languages(self, question: ModelChoice, model: ServedModel) -> None:
        sides = {"source": model.files.source, "target": model.files.target}
        for name, expected in sides.items():
            code = getattr(question, name)
            is_auto = name == "source" and code is not None and code.strip().lower() == "auto"
            if code is not None and not is_auto and self.catalog.language(code) != expected:
                raise InvalidRequestError(
                    f"Invalid request: {name} {code[:35]} is not that of {model.name}, "
                    f"{expected}; leave {name} or model out"
                )

    async def _tokenize(
        self, texts: Sequence[str], wanted: Wanted, is_split: bool, context: RequestContext
    ) -> list[TokenizedText]:
        """Texts or their sentences; a place is taken meanwhile, so that only so much is admitted.

        Raises:
            ServiceError: There is no room, or a text is not one that can be read.
        """
        num_chars = sum(map(len, texts))
        estimate = num_chars // CHARS_PER_TOKEN + 1
        await context.admit(self.backend, estimate, at_once=num_chars > INLINE_CHARS)
        with context.stage("tokenize"):
            return await run_sized(num_chars, self._sources, texts, wanted, is_split)

    def _sources(self, texts: Sequence[str], wanted: Wanted, is_split: bool) -> list[TokenizedText]:
        tokenizer = wanted.model.vocabularies.source
        limit = self.settings.max_source_tokens
        sentences = texts
        if is_split:
            sentences = [
                sentence
                for text in texts
                for sentence in chunk_sentences(
                    split_sentences(text, wanted.model.source), tokenizer, limit - 1
                ).segments.sentences
            ]
        if not sentences:
            raise nothing_to_read("text")
        return [
            tokenize_one(text, tokenizer, limit, item_name("text", number, sentences))
            for number, text in enumerate(sentences)
        ]

    def _targets(self, given: Sequence[str | None], wanted: Wanted) -> list[TokenizedText | None]:
        tokenizer = wanted.model.vocabularies.target
        limit = wanted.config.max_target_tokens(self.settings.max_source_tokens)
        return [
            None
            if text is None
            else tokenize_one(text, tokenizer, limit, item_name("target_text", number, given))
            for number, text in enumerate(given)
        ]

    def _check_size(
        self, query: AttentionQuery, lengths: list[tuple[int, int]], top_k: int | None
    ) -> None:
        check_size(query, lengths, top_k, self.settings.max_attention_values)

    async def _pairs(
        self,
        wanted: Wanted,
        sources: list[TokenizedText],
        given: Sequence[str | None],
        context: RequestContext,
    ) -> list[Pair]:
        """Each source with the translation that was given, or with the model's own."""
        num_chars = sum(len(text) for text in given if text is not None)
        with context.stage("tokenize"):
            targets = await run_sized(num_chars, self._targets, given, wanted)
        missing = [
            source for source, target in zip(sources, targets, strict=True) if target is None
        ]
        made = iter(await self._translate(wanted, missing, context))
        return [
            Pair(source, next(made) if target is None else target)
            for source, target in zip(sources, targets, strict=True)
        ]

    async def _translate(
        self, wanted: Wanted, sources: list[TokenizedText], context: RequestContext
    ) -> list[TokenizedText]:
        if not sources:
            return []
        name, first_id = wanted.model.name, wanted.model.vocabularies.first_id
        options, is_bulk = DecodingOptions(), len(sources) > self.settings.bulk_sentences
        items = [
            TranslationItem(name, source.ids, options, first_id, is_bulk) for source in sources
        ]
        tokens = sum(item.num_tokens for item in items)
        lease = await context.admit(self.backend, tokens, at_once=False)
        results = await lease.submit(items, self._deadline(context)).in_order(len(items))
        context.add_times(results)
        tokenizer = wanted.model.vocabularies.target
        return [tokenizer.detokenize(result.value[0].tokens) for result in results]

    async def _compute(self, items: list[AttentionItem], context: RequestContext) -> list[Result]:
        return await compute(self.backend, items, self._deadline(context), context)

    def _deadline(self, context: RequestContext) -> float:
        return context.started + self.settings.request_timeout_seconds


def tokenize_one(text: str, tokenizer: Tokenizer, limit: int, name: str) -> TokenizedText:
    """A text that is one sequence.

    Args:
        text: As the client sent it.
        tokenizer: Of its language.
        limit: Tokens of a sequence, EOS included.
        name: What a message calls the text.

    Raises:
        InvalidRequestError: It has no tokens.
        RequestTooLargeError: It has too many.
    """
    if number := count_long(text, tokenizer, limit):
        raise too_long(number, limit, name)
    tokenized = tokenizer.tokenize(text)
    if len(tokenized.ids) == len(tokenizer.prefix) + 1:  # EOS
        raise nothing_to_read(name)
    if len(tokenized.ids) > limit:
        raise too_long(len(tokenized.ids), limit, name)
    return tokenized


def too_long(number: int, limit: int, name: str) -> RequestTooLargeError:
    """The error for a text of more tokens than a sequence has."""
    return RequestTooLargeError(
        f"Invalid request: {name} has {number} tokens, and one sequence has {limit} at most. Send "
        "sentences (/attention takes split for that), or raise REGARD_MAX_SOURCE_TOKENS."
    )


def in_parts(items: Sequence[AttentionItem], max_values: int) -> Iterator[list[AttentionItem]]:
    """Parts of a request, each of which has so many weights of one head at most, or one item."""
    part: list[AttentionItem] = []
    total = 0
    for item in items:
        size = len(item.job.source) * len(item.job.target)
        if part and total + size > max_values:
            yield part
            part, total = [], 0
        part.append(item)
        total += size
    if part:
        yield part
