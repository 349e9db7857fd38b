"""The tools that agents may call: their arguments, their results, and the functions behind them."""

import inspect
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any

import orjson
from pydantic import BaseModel, ConfigDict, Field

from service.api.context import HttpContext
from service.api.libretranslate.routes import terms_of
from service.api.libretranslate.schemas import DetectedLanguage, TextFormat
from service.api.libretranslate.streaming import detection_body
from service.api.ranking import score
from service.api.request import translation
from service.api.request.reading import check_scope, validated
from service.errors import SHOWN_CHARS, InvalidRequestError, RequestTooLargeError
from service.tasks.alignment.aligner import PairAligner, TranslatedPair
from service.tasks.alignment.alignment import between_words, text_span
from service.tasks.attention.requests import OneTextQuestion
from service.tasks.attention.results import largest
from service.tasks.embedding.inputs import (
    CheckedList,
    CheckedTexts,
    EmbedParameters,
    EmbedQuery,
    ModelName,
    ScoreParameters,
)
from service.tasks.parameters import Parameters, Positive, Texts, not_empty
from service.tasks.threads import run_sized
from service.tasks.translation.guards import GuardWarning
from service.text.language_codes import display_name

MAX_VECTORS = 32
"""Largest number of vectors in a result. A language model reads it as text, number by number."""

MIN_WEIGHT = 0.05
"""Smallest weight of a source word in a result, except for the first word."""


class Arguments(Parameters):
    model_config = ConfigDict(extra="forbid")


SOURCE: Any = Field("auto", description="Language code of the text, or `auto` to detect it.")
TARGET: Any = Field(description="Language code of the translation, such as `pt`.")


class TranslateArguments(Arguments):
    text: Texts = Field(description="Text to translate, or a list of texts.")
    target: str = TARGET
    source: str = SOURCE
    format: TextFormat = Field(
        "text", description="`html` keeps tags, and translates the text between them."
    )
    glossary: str | None = Field(
        None,
        description="Id of a stored glossary whose terms the translation uses. Name the source "
        "language too.",
    )


class Translation(BaseModel):
    text: str
    source: str = Field(description="Language code of the source text.")
    warnings: list[GuardWarning] | None = Field(
        None, description="Sentences that are probably translated wrongly."
    )


class Translations(BaseModel):
    translations: list[Translation] = Field(description="One for each text, in order.")


async def translate(context: HttpContext, given: TranslateArguments) -> Translations:
    """Translates a text or a list of texts.

    Numbers, placeholders, Markdown and tags are kept. The tool `languages` lists the languages.
    """
    pair = ("source", given.source), ("target", given.target)
    wanted = translation.translation_request(context, ("text", given.text), *pair, given.format)
    languages = wanted.source, wanted.target
    wanted.terms = await terms_of(context.services, given.glossary, *languages)
    found = await translation.translate(context, wanted)
    return Translations(
        translations=[
            Translation(
                text=each.text,
                source=translation.source_of(each, wanted.source or ""),
                warnings=each.warnings or None,
            )
            for each in found
        ]
    )


class DetectArguments(Arguments):
    text: str = Field(description="Text in one language.", json_schema_extra=not_empty)


class DetectedLanguages(BaseModel):
    languages: list[DetectedLanguage] = Field(description="Most probable first.")


async def detect(context: HttpContext, given: DetectArguments) -> DetectedLanguages:
    """Detects the language of a text among the languages of the server.

    The confidence is from 0 to 100.
    """
    texts = translation.as_texts(context, "text", given.text)
    (found,) = await translation.detected(context, texts)
    return DetectedLanguages.model_validate({"languages": list(map(detection_body, found))})


class LanguagesArguments(Arguments):
    source: str | None = Field(
        None, description="Language code. With it, only the targets of this language are listed."
    )


class LanguageNames(BaseModel):
    languages: dict[str, str] = Field(description="Names of the languages by code.")


async def languages(context: HttpContext, given: LanguagesArguments) -> LanguageNames:
    """Lists the languages that can be translated, or the target languages of one of them."""
    catalog = context.services.catalog
    codes = [*catalog.offers()]
    if given.source is not None:
        source = catalog.language(given.source)
        codes = [code for code in catalog.targets(source) if code != source]
    return LanguageNames(languages={code: display_name(code) for code in codes})


class Models(BaseModel):
    models: dict[str, str] = Field(description="Tasks of the models by name, defaults first.")


async def models(context: HttpContext, _given: Arguments) -> Models:
    """Lists the served models with the task of each: translate, embed or rerank."""
    return Models(
        models={each.name: each.task for each in context.services.catalog.served.values()}
    )


class EmbedArguments(Arguments):
    texts: CheckedTexts = Field(description=f"Up to {MAX_VECTORS} texts.")
    model: ModelName = Field(
        None, description="Name as in `models`; by default the first embedding model."
    )
    prompt_name: str | None = Field(
        None, description="Name of the model's prompt that is put before each text."
    )
    dimensions: Positive | None = Field(
        None, description="Number of values to keep of each vector; by default all."
    )


class Embeddings(BaseModel):
    model: str
    vectors: list[list[float]] = Field(description="A vector of length 1 for each text, in order.")


async def embed(context: HttpContext, given: EmbedArguments) -> Embeddings:
    """Returns a vector for each text.

    The dot product of two vectors measures the similarity of the meanings of their texts.
    """
    context.num_inputs = number = len(given.texts)
    if number > MAX_VECTORS:
        raise RequestTooLargeError(
            f"{number} texts are more than {MAX_VECTORS}; call the tool several times, or send "
            "them to the route /v1/embeddings"
        )
    fields = {"truncate": False, "prompt_name": given.prompt_name}
    reading = EmbedParameters.model_validate(fields)
    query = EmbedQuery(given.texts, "texts", reading, given.model, given.dimensions)
    vectors, _ = await context.services.embedder.embed(query, context)
    shortest = orjson.loads(orjson.dumps(vectors, option=orjson.OPT_SERIALIZE_NUMPY))
    return Embeddings(model=context.model, vectors=shortest)


class RerankArguments(Arguments):
    query: str = Field(description="Query that the texts are compared with.")
    texts: CheckedList = Field(description="Texts to rank.")
    top_n: Positive | None = Field(None, description="Number of results; by default all texts.")
    model: ModelName = Field(
        None, description="Name as in `models`; by default the first reranking model."
    )


class Rank(BaseModel):
    index: int = Field(description="Index of the text in the arguments.")
    score: float = Field(description="Relevance of the text to the query, from 0 to 1.")
    text: str


class Ranks(BaseModel):
    results: list[Rank] = Field(description="Most relevant text first.")


async def rerank(context: HttpContext, given: RerankArguments) -> Ranks:
    """Ranks texts by their relevance to a query, with a score for each text."""
    options = ScoreParameters.model_validate({"model": given.model})
    pairs = [(given.query, text) for text in given.texts]
    scored = await score(context, options, "texts", pairs)
    return Ranks(
        results=[
            Rank(index=index, score=scored.scores[index], text=given.texts[index])
            for index in scored.order[: given.top_n]
        ]
    )


class AttentionArguments(Arguments):
    text: str = Field(description="Text in the source language.", json_schema_extra=not_empty)
    target: str = TARGET
    source: str = SOURCE
    translation: str | None = Field(
        None,
        description="Translation to explain, such as one by another translator; by default the "
        "model's own.",
        json_schema_extra=not_empty,
    )
    top_k: Positive = Field(3, description="Largest number of source words for each word.")


class SourceWord(BaseModel):
    word: str
    weight: float = Field(description="Share of the attention to this word, from 0 to 1.")


class TargetWord(BaseModel):
    word: str
    sources: list[SourceWord] = Field(description="Source words, largest weight first.")


class WordAttention(BaseModel):
    model: str
    translation: str
    words: list[TargetWord] = Field(description="The words of the translation, in order.")


async def attention(context: HttpContext, given: AttentionArguments) -> WordAttention:
    """Shows which source words each word of a translation rests on.

    The weights are the attention of the translation model. The translation is the model's own,
    or a given one.
    """
    context.num_inputs = 1
    languages = {"source": given.source, "target": given.target}
    fields = {"text": given.text, **languages, "target_text": given.translation}
    question = validated(fields, OneTextQuestion)
    inspector = context.services.inspector
    model = await inspector.choose_direction(question, given.text, context)
    read = await inspector.read(model, question, context, is_split=given.translation is None)
    pairs = [TranslatedPair(model.name, e.source, e.target, None) for e in read if e.target]
    await PairAligner(context.services.backend, context.services.settings).attend(pairs, context)
    return WordAttention(
        model=model.name,
        translation=given.translation or " ".join(pair.target.text for pair in pairs),
        words=await run_sized(len(given.text), context.deadline, words_of, pairs, given.top_k),
    )


def words_of(pairs: Sequence[TranslatedPair], top_k: int) -> list[TargetWord]:
    return [word for pair in pairs for word in attended(pair, top_k)]


def attended(pair: TranslatedPair, top_k: int) -> list[TargetWord]:
    source_words, target_words, weights = between_words(*pair.attention)
    if not weights.size:
        return []
    sources = [pair.source.text[slice(*text_span(pair.source, word))] for word in source_words]
    targets = [pair.target.text[slice(*text_span(pair.target, word))] for word in target_words]
    found = []
    for word, values, places in zip(targets, *largest(weights, top_k), strict=True):
        kept = [
            SourceWord(word=sources[place], weight=round(float(value), 3))
            for value, place in zip(values, places, strict=True)
            if value >= MIN_WEIGHT or place == places[0]
        ]
        found.append(TargetWord(word=word, sources=kept))
    return found


@dataclass(frozen=True, slots=True)
class ToolFunction:
    """A function that agents may call. Its docstring is the description that agents read."""

    run: Callable[[HttpContext, Any], Awaitable[BaseModel]]
    arguments: type[Arguments]
    result: type[BaseModel]
    scope: str = ""  # that an API key needs for the tool; "" for none

    @property
    def description(self) -> str:
        return " ".join((inspect.getdoc(self.run) or "").split())


TOOLS = {
    "translate": ToolFunction(translate, TranslateArguments, Translations, "translate"),
    "detect": ToolFunction(detect, DetectArguments, DetectedLanguages, "translate"),
    "languages": ToolFunction(languages, LanguagesArguments, LanguageNames),
    "models": ToolFunction(models, Arguments, Models),
    "embed": ToolFunction(embed, EmbedArguments, Embeddings, "embed"),
    "rerank": ToolFunction(rerank, RerankArguments, Ranks, "embed"),
    "attention": ToolFunction(attention, AttentionArguments, WordAttention, "attention"),
}


async def call(context: HttpContext, tool: ToolFunction, arguments: dict[str, Any]) -> BaseModel:
    if context.key is not None:
        check_scope(context.key, tool.scope)
    known = tool.arguments.model_fields
    if unknown := next((name for name in arguments if name not in known), None):
        raise InvalidRequestError(
            f"Invalid request: there is no {unknown[:SHOWN_CHARS]} parameter",
            details=f"the tool has {', '.join(known) or 'none'}",
        )
    return await tool.run(context, validated(arguments, tool.arguments))
