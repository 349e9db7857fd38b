"""Computes the attention of translations.

A sentence is translated first, with the default search of /translate. The model then reads the
sentence and its translation together, in one pass. A translation that the client sends is read in
the same way.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from model.config import ModelConfig
from model.sequence import DecodingOptions
from model.tokenization.tokenizer import TokenizedText
from service.items.translation import TranslationItem
from service.models.catalog import Catalog
from service.models.served import Direction
from service.settings import Settings
from service.tasks.alignment.aligner import Pair, resident
from service.tasks.attention.directions import choose_direction
from service.tasks.attention.inspector import Inspector
from service.tasks.attention.pairs import PairQueries
from service.tasks.attention.probabilities import Scoring
from service.tasks.attention.query import (
    aligner_of,
    attention_query,
    detachment_query,
    start_token,
)
from service.tasks.attention.requests import InspectionRequest, ModelChoice
from service.tasks.attention.tokenization import item_name, nothing_to_read, tokenize_one
from service.tasks.backend import Backend
from service.tasks.context import RequestContext
from service.tasks.threads import run_sized
from service.text.chunking import chunk_sentences
from service.text.detection import LanguageDetector
from service.text.segmentation import split_sentences


@dataclass(frozen=True, slots=True)
class LoadedDirection:
    """One language pair of a loaded model.

    Attributes:
        direction: Model name, languages and tokenizers.
        config: Sizes and switches of the model.
    """

    direction: Direction
    config: ModelConfig

    @property
    def name(self) -> str:
        """Served name."""
        return self.direction.name

    @property
    def start(self) -> str:
        """Spelling of the start token; "" if the decoder starts with a zero vector."""
        return start_token(self.config, self.direction.vocabularies.target)


class TranslationInspector(Inspector[LoadedDirection, Pair]):
    """Computes the attention and the word alignment of translations.

    Args:
        catalog: Served models.
        backend: Admission and device workers.
        detector: Detects the language of texts whose source is `auto`.
        settings: Limits.
    """

    min_target_tokens = 1

    def __init__(
        self, catalog: Catalog, backend: Backend, detector: LanguageDetector, settings: Settings
    ) -> None:
        super().__init__(catalog, backend, settings)
        self.detector = detector

    async def choose_model(
        self, choice: ModelChoice, texts: Sequence[str], context: RequestContext
    ) -> LoadedDirection:
        """Returns the loaded model of a request, and records its name in the context.

        Raises:
            ServiceError: There is no such model or language pair, or the model is not loaded.
        """
        direction = await choose_direction(choice, texts, self.catalog, self.detector)
        context.model = direction.name
        return await self._loaded(direction)

    async def _loaded(self, direction: Direction) -> LoadedDirection:
        config = (await resident(self.backend, direction.name)).config
        assert config is not None  # every translation model has a config
        return LoadedDirection(direction, config)

    def _queries(self, model: LoadedDirection, request: InspectionRequest) -> PairQueries:
        query = attention_query(model.config, request)
        aligner = aligner_of(
            model.config, request.alignment_layer, request.alignment_head, request.alignment_shift
        )
        scoring, vocabularies = None, model.direction.vocabularies
        if request.probabilities is not None:
            scoring = Scoring.of(request.probabilities, vocabularies.target, vocabularies.first_id)
        detaching = detachment_query(model.config) if request.has_detachment else None
        return PairQueries(query, aligner, scoring, detaching)

    async def _tokenize(
        self, texts: Sequence[str], model: LoadedDirection, is_split: bool, context: RequestContext
    ) -> list[TokenizedText]:
        num_chars = sum(map(len, texts))
        return await self._admit_and_tokenize(
            num_chars, context, self._sources, texts, model.direction, is_split
        )

    def _sources(
        self, texts: Sequence[str], direction: Direction, is_split: bool
    ) -> list[TokenizedText]:
        """Tokenises texts or, if they are split, their sentences."""
        tokenizer = direction.vocabularies.source
        limit = self.settings.max_source_tokens
        sentences = texts
        if is_split:
            sentences = [
                sentence
                for text in texts
                for sentence in chunk_sentences(
                    split_sentences(text, direction.source), tokenizer, limit - 1
                ).segments.sentences
            ]
        if not sentences:
            raise nothing_to_read("text")
        return [
            tokenize_one(text, tokenizer, limit, item_name("text", number, sentences))
            for number, text in enumerate(sentences)
        ]

    async def _complete(
        self,
        model: LoadedDirection,
        sources: list[TokenizedText],
        target_texts: Sequence[str | None],
        context: RequestContext,
    ) -> list[Pair]:
        """Pairs each source with the client's translation, or else with the model's translation."""
        num_chars = sum(len(text) for text in target_texts if text is not None)
        with context.stage("tokenize"):
            targets = await run_sized(
                num_chars, self._deadline(context), self._targets, target_texts, model
            )
        missing = [
            source for source, target in zip(sources, targets, strict=True) if target is None
        ]
        translated = iter(await self._translate(model.direction, missing, context))
        return [
            Pair(source, next(translated) if target is None else target)
            for source, target in zip(sources, targets, strict=True)
        ]

    def _targets(
        self, texts: Sequence[str | None], model: LoadedDirection
    ) -> list[TokenizedText | None]:
        """Tokenises the client's translations; a missing translation stays None."""
        tokenizer = model.direction.vocabularies.target
        limit = model.config.max_target_tokens(self.settings.max_source_tokens)
        return [
            None
            if text is None
            else tokenize_one(text, tokenizer, limit, item_name("target_text", number, texts))
            for number, text in enumerate(texts)
        ]

    async def _translate(
        self, direction: Direction, sources: list[TokenizedText], context: RequestContext
    ) -> list[TokenizedText]:
        if not sources:
            return []
        name, first_id = direction.name, direction.vocabularies.first_id
        options, is_bulk = DecodingOptions(), len(sources) > self.settings.bulk_sentences
        items = [
            TranslationItem(name, source.ids, options, first_id, is_bulk) for source in sources
        ]
        tokens = sum(item.num_tokens for item in items)
        lease = await context.admit(self.backend, tokens, at_once=False)
        results = await lease.submit(items, self._deadline(context)).in_order()
        context.add_times(results)
        tokenizer = direction.vocabularies.target
        return [tokenizer.detokenize(result.value[0].tokens) for result in results]
