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
from service.errors import InvalidRequestError, NotFoundError, UnsupportedLanguageError
from service.items import TranslationItem
from service.models.catalog import Catalog
from service.models.remote import ServedRemote
from service.models.served import Direction, ServedModel
from service.settings import Settings
from service.tasks.alignment.aligner import resident, submit_all
from service.tasks.attention.inspector import (
    InspectedModel,
    Inspector,
    item_name,
    nothing_to_read,
    tokenize_one,
)
from service.tasks.attention.probabilities import Scoring
from service.tasks.attention.query import (
    aligner_of,
    attention_query,
    detachment_query,
    start_token,
)
from service.tasks.attention.requests import AttentionQuestion, AttentionRequest
from service.tasks.attention.results import InspectedText, Queries
from service.tasks.backend import Backend
from service.tasks.context import RequestContext
from service.tasks.threads import run_sized
from service.tasks.translation.translator import no_attention
from service.text.chunking import chunk_sentences
from service.text.detection import LanguageDetector
from service.text.segmentation import split_sentences


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedDirection(InspectedModel):
    """One language pair of a loaded model."""

    config: ModelConfig
    direction: Direction


class TranslationInspector(Inspector[LoadedDirection]):
    """Computes the attention and the word alignment of translations."""

    min_target_tokens = 1

    def __init__(
        self, catalog: Catalog, backend: Backend, detector: LanguageDetector, settings: Settings
    ) -> None:
        super().__init__(catalog, backend, settings)
        self.detector = detector

    async def choose_model(
        self, question: AttentionQuestion, texts: Sequence[str], context: RequestContext
    ) -> LoadedDirection:
        """Returns the loaded model of a request, and records its name in the context."""
        direction = self._direction(question, texts)
        context.model = direction.name
        config = (await resident(self.backend, direction.name)).config
        assert config is not None  # every translation model has a config
        start = start_token(config, direction.vocabularies.target)
        return LoadedDirection(name=direction.name, config=config, start=start, direction=direction)

    def _queries(self, model: LoadedDirection, request: AttentionRequest) -> Queries:
        query = attention_query(model.config, request)
        aligner = aligner_of(
            model.config, request.alignment_layer, request.alignment_head, request.alignment_shift
        )
        scoring, vocabularies = None, model.direction.vocabularies
        if request.probabilities is not None:
            scoring = Scoring.of(request.probabilities, vocabularies.target, vocabularies.first_id)
        detaching = detachment_query(model.config) if request.detachment else None
        return Queries(query, aligner, scoring, detaching)

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
    ) -> list[InspectedText]:
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
            InspectedText(source, next(translated) if target is None else target)
            for source, target in zip(sources, targets, strict=True)
        ]

    def _targets(
        self, texts: Sequence[str | None], model: LoadedDirection
    ) -> list[TokenizedText | None]:
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
        options = DecodingOptions()
        items = [TranslationItem(name, source.ids, options, first_id) for source in sources]
        results = await submit_all(items, self.backend, self.settings, context)
        tokenizer = direction.vocabularies.target
        return [tokenizer.detokenize(result.value[0].tokens) for result in results]

    def _direction(self, question: AttentionQuestion, texts: Sequence[str]) -> Direction:
        """Returns the model of a request, with the language pair that is translated.

        The request names the model, or the languages, or both. If it names no model, and its source
        is `auto` or missing, the source is detected from the first text.
        """
        catalog = self.catalog
        if question.model is not None:
            name = catalog.named(question.model)
            if name in catalog.of_type(ServedRemote):
                raise no_attention(name)
            if name not in catalog.models:
                known = ", ".join(catalog.models)
                raise NotFoundError(f"there is no model {question.model[:64]}; there are {known}")
            return self._direction_of(catalog.models[name], question)
        target = catalog.language(question.target or "")
        source = self._source(question, target, texts)
        route = catalog.route(source, target)
        if not route:
            raise InvalidRequestError(
                f"Invalid request: nothing is translated from {target} to {target}; "
                "name two languages, or a model"
            )
        if len(route) > 1:
            models = " and ".join(direction.name for direction in route)
            raise InvalidRequestError(
                f"Invalid request: no single model translates from {source} to {target}; "
                f"send one request for each of {models}"
            )
        if not route[0].has_attention:
            raise no_attention(route[0].name)
        return route[0]

    def _source(self, question: AttentionQuestion, target: str, texts: Sequence[str]) -> str:
        code = question.source or "auto"
        if not _is_auto(code):
            return self.catalog.language(code)
        candidates = [code for code in self.catalog.sources(target) if code != target]
        if not candidates:
            raise UnsupportedLanguageError(
                f"nothing is translated to {target}; GET /languages lists all targets", target
            )
        detected = self.detector.detect(texts[0], candidates)  # reads only the beginning
        return detected[0].language if detected else candidates[0]

    def _direction_of(self, model: ServedModel, question: AttentionQuestion) -> Direction:
        files, language = model.files, self.catalog.language
        source, target = question.source or "auto", question.target
        if not files.source:
            if target is None or _is_auto(source):
                raise InvalidRequestError(
                    f"Invalid request: {model.name} has many languages; name source and target"
                )
            return model.direction(language(source), language(target))
        sides = [("target", target, files.target)]
        if not _is_auto(source):
            sides.insert(0, ("source", source, files.source))
        for name, code, expected in sides:
            if code is not None and language(code) != expected:
                raise InvalidRequestError(
                    f"Invalid request: {name} {code[:35]} is not the {name} language of "
                    f"{model.name} ({expected}); leave {name} or model out"
                )
        return model.direction(files.source, files.target)


def _is_auto(code: str) -> bool:
    return code.strip().lower() == "auto"
