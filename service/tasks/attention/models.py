"""The models whose attention requests inspect, and the tokens that the models read."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from model.config import ModelConfig
from model.inspection.query import AttentionJob, InspectedConfig, Knockout, Query, ScoreQuery
from model.tokenization.pairs import PairText
from model.tokenization.text import TextTokens
from model.tokenization.tokenizer import TokenizedText, Tokenizer
from service.errors import (
    InvalidRequestError,
    NotFoundError,
    RequestTooLargeError,
    UnsupportedLanguageError,
)
from service.models.catalog import Catalog
from service.models.remote import ServedRemote
from service.models.served import (
    AnyServed,
    Direction,
    NotLoadedError,
    ServedEmbedder,
    ServedModel,
    ServedReranker,
)
from service.tasks.attention.query import aligner_of, attention_query, detachment_query
from service.tasks.attention.requests import AttentionQuestion, AttentionRequest
from service.tasks.attention.results import InspectedText, Queries, Scoring
from service.tasks.embedding.limits import find_language, find_prompt
from service.tasks.reranking import ids_of
from service.tasks.translation.translator import no_attention
from service.text.chunking import chunk_sentences
from service.text.detection import LanguageDetector
from service.text.segmentation import split_sentences

LONG_CHARS = 16
"""If the limit is n tokens, a text with more than LONG_CHARS * n characters counts as very long.

The tokens of a very long text are counted first. If there are too many, the text is refused before
anything else is computed for it.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class InspectedModel(ABC):
    """A loaded model whose attention a request asks for."""

    name: str
    config: InspectedConfig
    max_tokens: int  # of a text, special tokens included
    start: str = ""  # spelling of the decoder's start token; "" without one
    prompt: str = ""  # put before each text

    @abstractmethod
    def queries(self, request: AttentionRequest) -> Queries: ...

    @abstractmethod
    def tokenize(self, inputs: Sequence[tuple[str, ...]], is_split: bool) -> list[TokenizedText]:
        """Tokenises texts or pairs; if texts are split, their sentences."""

    def job(
        self, text: InspectedText, queries: tuple[Query, ...], knockout: Knockout | None = None
    ) -> AttentionJob:
        target = [] if text.target is None else text.target.ids
        return AttentionJob(self.ids_of(text.source), target, queries, knockout)

    def ids_of(self, source: TokenizedText) -> list[int]:
        """Returns the ids that the model reads."""
        return source.ids


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedDirection(InspectedModel):
    """One language pair of a loaded model."""

    config: ModelConfig
    direction: Direction

    def queries(self, request: AttentionRequest) -> Queries:
        aligner = aligner_of(
            self.config, request.alignment_layer, request.alignment_head, request.alignment_shift
        )
        scoring, vocabularies = None, self.direction.vocabularies
        if request.probabilities is not None:
            scoring = Scoring.of(request.probabilities, vocabularies.target, vocabularies.first_id)
        detaching = detachment_query(self.config) if request.detachment else None
        return Queries(attention_query(self.config, request), aligner, scoring, detaching)

    def tokenize(self, inputs: Sequence[tuple[str, ...]], is_split: bool) -> list[TokenizedText]:
        tokenizer, limit = self.direction.vocabularies.source, self.max_tokens
        sentences = [text for (text,) in inputs]
        if is_split:
            sentences = [
                sentence
                for text in sentences
                for sentence in chunk_sentences(
                    split_sentences(text, self.direction.source), tokenizer, limit - 1
                ).segments.sentences
            ]
        if not sentences:
            raise nothing_to_read("text")
        return [
            tokenize_one(text, tokenizer, limit, item_name("text", number, len(sentences)))
            for number, text in enumerate(sentences)
        ]

    def tokenize_targets(self, texts: Sequence[str | None]) -> list[TokenizedText | None]:
        tokenizer = self.direction.vocabularies.target
        limit = self.config.max_target_tokens(self.max_tokens)
        return [
            None
            if text is None
            else tokenize_one(text, tokenizer, limit, item_name("target_text", number, len(texts)))
            for number, text in enumerate(texts)
        ]


@dataclass(frozen=True, slots=True, kw_only=True)
class Encoder(InspectedModel):
    """The encoder of a loaded model, which reads each text or pair alone.

    The text that `read` takes begins with the prompt. A pair needs a `reranker`.
    """

    read: Callable[..., TextTokens]
    reranker: ServedReranker | None = None

    def queries(self, request: AttentionRequest) -> Queries:
        score = None if self.reranker is None else ScoreQuery()
        return Queries(attention_query(self.config, request), score=score)

    def ids_of(self, source: TokenizedText) -> list[int]:
        if isinstance(source, PairText) and self.reranker is not None:
            return ids_of(source, self.reranker)
        return source.ids

    def tokenize(self, inputs: Sequence[tuple[str, ...]], is_split: bool) -> list[TokenizedText]:
        tokenized, limit = [], self.max_tokens
        allowed = (
            f"{self.name} takes {limit} at most. Send it in parts; attention is not computed for "
            "truncated texts."
        )
        for number, (text, *document) in enumerate(inputs):
            name = item_name("text", number, len(inputs))
            if not text.strip():
                raise nothing_to_read(name)
            found = self.read(self.prompt + text, *document)
            place = f"{name} with its text_pair" if document else name
            tokenized.append(whole(found, place, limit, allowed))
        return tokenized


def find_encoder(catalog: Catalog, question: AttentionQuestion) -> AnyServed:
    """Returns the model that reads the texts or pairs of a request: the named or the first one."""
    if question.has_pair:
        missing = "no cross-encoder is served: name its folder in REGARD_MODELS"
        rerankers = catalog.of_type(ServedReranker)
        return catalog.choose(question.model, rerankers, "cross-encoder {}", missing)
    served: dict[str, AnyServed] = {**catalog.embedders, **catalog.models}
    known = ", ".join(served)
    missing = f"no embedding model is served; name a model whose encoder embeds texts: {known}"
    among = served if question.model is not None or catalog.embedders else {}
    return catalog.choose(question.model, among, "model {} that embeds", missing)


def check_task(catalog: Catalog, question: AttentionQuestion) -> None:
    """Refuses a cross-encoder for a task that reads single texts."""
    name = None if question.model is None else catalog.named(question.model)
    if not question.has_pair and name in catalog.of_type(ServedReranker):
        raise NotFoundError(
            f"{name} reads pairs: send the document of each query as text_pair, with task rerank, "
            "or name a model that translates or embeds",
            param="model",
        )


def encoder_of(
    served: AnyServed, config: ModelConfig | None, prompt: str | None, limit: int
) -> Encoder:
    """Returns the encoder of a model.

    Args:
        config: Config of a translation model.
        prompt: The `prompt_name` of the request; it may name a language of a translation model.
        limit: Largest number of tokens of a sentence.
    """
    if isinstance(served, ServedModel):
        assert config is not None  # every translation model has a config
        read = partial(read_uncut, _source_tokenizer(served, prompt), limit)
        return Encoder(name=served.name, config=config, max_tokens=limit, read=read)
    if isinstance(served, ServedReranker):
        return Encoder(
            name=served.name,
            config=served.config.model.encoder,
            max_tokens=served.tokenizer.max_tokens,
            read=served.tokenizer.show,
            reranker=served,
        )
    assert isinstance(served, ServedEmbedder)
    own = served.config
    if not own.encoder.blocks:
        raise InvalidRequestError(
            f"Invalid request: {served.name} adds up vectors of tokens, without layers, so it has "
            "no attention. Name another model."
        )
    return Encoder(
        name=served.name,
        config=own.encoder,
        max_tokens=own.max_tokens,
        read=served.tokenizer.tokenize,
        prompt=find_prompt(prompt, own.prompts, own.default_prompt),
    )


def _source_tokenizer(model: ServedModel, name: str | None) -> Tokenizer:
    openings = model.openings
    if len(openings) > 1:
        return openings[find_language(name, openings)]
    find_prompt(name, {}, None)
    return next(iter(openings.values()))


def read_uncut(tokenizer: Tokenizer, limit: int, text: str) -> TextTokens:
    """Tokenises a text for a translation model, without truncation.

    For a very long text that exceeds the limit, only the number of tokens is computed, because the
    text is refused later. Counting takes a tenth of the time of `tokenize`, which also finds each
    token's place.
    """
    if len(text) > LONG_CHARS * limit:
        number = len(tokenizer.encode(text)) + len(tokenizer.source_end)
        if number > limit:
            return TextTokens(TokenizedText(text, [], [], [], []), number)
    tokenized = tokenizer.tokenize(text)
    return TextTokens(tokenized, len(tokenized.ids))


def whole(found: TextTokens, name: str, limit: int, allowed: str) -> TokenizedText:
    """Refuses a text that is too long or empty; `name` and `allowed` are parts of the message."""
    if found.num_tokens > limit:
        count = f"{'at least ' * (not found.is_exact)}{found.num_tokens}"
        raise RequestTooLargeError(f"Invalid request: {name} has {count} tokens, and {allowed}")
    if all(found.tokenized.special):
        raise nothing_to_read(name)
    return found.tokenized


def tokenize_one(text: str, tokenizer: Tokenizer, limit: int, name: str) -> TokenizedText:
    """Tokenises a text that is one sequence of at most `limit` tokens, prefix and EOS included."""
    allowed = (
        f"one sequence has {limit} at most. Send sentences (/attention splits texts if split is "
        "true), or raise REGARD_MAX_SOURCE_TOKENS."
    )
    return whole(read_uncut(tokenizer, limit, text), name, limit, allowed)


def item_name(name: str, number: int, count: int) -> str:
    return f"{name}[{number}]" if count > 1 else name


def nothing_to_read(name: str) -> InvalidRequestError:
    return InvalidRequestError(f"Invalid request: {name} has nothing to read; send words")


def find_direction(
    catalog: Catalog, detector: LanguageDetector, question: AttentionQuestion, text: str
) -> Direction:
    """Returns the model of a request, with the language pair that is translated.

    The request names the model, or the languages, or both. If it names no model, and its source is
    `auto` or missing, the source is detected from the text.
    """
    if question.model is not None:
        name = catalog.named(question.model)
        if name in catalog.of_type(ServedRemote):
            raise no_attention(name)
        if name in catalog.on_demand.keys() - catalog.served.keys():
            raise NotLoadedError((name,))
        model = catalog.choose(question.model, catalog.models, "model {}", missing="")
        return catalog.loaded(_direction_of(model, question, catalog))[0]
    target = catalog.language(question.target or "")
    source = _find_source(question, target, text, catalog, detector)
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


def _find_source(
    question: AttentionQuestion,
    target: str,
    text: str,
    catalog: Catalog,
    detector: LanguageDetector,
) -> str:
    code = question.source or "auto"
    if not _is_auto(code):
        return catalog.language(code)
    candidates = [code for code in catalog.sources(target) if code != target]
    if not candidates:
        raise UnsupportedLanguageError(
            f"nothing is translated to {target}; GET /languages lists all targets"
        )
    detected = detector.detect(text, candidates)  # reads only the beginning
    return detected[0].language if detected else candidates[0]


def _direction_of(model: ServedModel, question: AttentionQuestion, catalog: Catalog) -> Direction:
    files, language = model.files, catalog.language
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
