"""The served models without their weights; only the workers have the weights."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

from model.checkpoints.families.cross_encoders import (
    CrossEncoderConfig,
    CrossEncoderFiles,
    load_pair_tokenizer,
    read_cross_encoder,
)
from model.checkpoints.families.sentence_transformers import (
    FORMS,
    EmbeddingFiles,
    load_tokenizer,
    read_config,
)
from model.checkpoints.load import ModelFiles, Vocabularies, load_vocabularies
from model.config import EmbeddingConfig
from model.tokenization.pairs import PairTokenizer, PromptedPairTokenizer
from model.tokenization.text import TextTokenizer
from model.tokenization.tokenizer import Tokenizer
from service.errors import UnsupportedLanguageError
from service.items import EMBED, RERANK, TRANSLATE
from service.models.text_reader import TextReader
from service.workers.messages import AnyFiles

ModelState = Literal["loading", "ready", "unloading", "failed", "available"]
"""State of one model, as `GET /v1/models` reports it."""


@dataclass(frozen=True, slots=True)
class AnyServed:
    """A served model; `task` is the name of the task that it was made for."""

    task: ClassVar[str]

    files: AnyFiles

    @property
    def name(self) -> str:
        return self.files.name


@dataclass(frozen=True, slots=True)
class ServedModel(AnyServed):
    task: ClassVar[str] = TRANSLATE

    files: ModelFiles
    vocabularies: Vocabularies

    @classmethod
    def load(cls, files: ModelFiles) -> "ServedModel":
        return cls(files, load_vocabularies(files))

    def reader(self, max_tokens: int) -> TextReader:
        """Returns a TextReader for embedding texts with the model's encoder.

        It puts the same tokens before a text as translation does before a source sentence. In a
        multilingual model, one of them is the token of the request's language. `max_tokens` counts
        EOS and language token too.
        """
        tokenizer = self.vocabularies.source
        bare = tokenizer.before("")
        openings = {code: opened.prefix for code, opened in self.openings.items()}
        return TextReader(
            self.name,
            lambda prompt, text, _room, _direction: (bare.encode(prompt + text), True),
            [] if len(openings) > 1 else next(iter(openings.values())),
            [tokenizer.eos_id],
            max_tokens=max_tokens,
            vocab_size=tokenizer.vocab_size,
            size=None,
            is_normalized=False,
            prompts={},
            default_prompt=None,
            languages=openings if len(openings) > 1 else {},
        )

    @property
    def openings(self) -> dict[str, Tokenizer]:
        """Maps each language to a tokenizer that puts the language's token before a text.

        For a model of a single pair, the only key is its source language.
        """
        tokenizer, tokens = self.vocabularies.source, self.files.tokens
        if self.files.source or tokens is None:
            return {self.files.source: tokenizer}
        return {code: tokenizer.before(token) for code, token in tokens.openings.items()}

    def direction(self, source: str, target: str) -> "Direction":
        files = self.files
        if source == target or source not in files.sources or target not in files.targets:
            raise UnsupportedLanguageError(
                f"{self.name} does not translate from {source} to {target}"
            )
        if files.source or files.tokens is None:
            return Direction(self.name, source, target, self.vocabularies)
        vocabularies = self.vocabularies.between(files.tokens, source, target)
        return Direction(self.name, source, target, vocabularies)


@dataclass(frozen=True, slots=True)
class Direction:
    """One language pair of a model."""

    name: str
    source: str
    target: str
    vocabularies: Vocabularies  # put the pair's language tokens, if any, before texts
    max_tokens: int = 0  # of a sentence, EOS included; 0 if the server's limit applies
    has_attention: bool = True  # whether the attention can be inspected; false if it is remote
    paragraph_chars: int = 0  # largest length of joined sentences; 0 if it reads single sentences
    fallback: "Direction | None" = None  # translates sentences that a remote model does not

    def limit(self, max_source_tokens: int) -> int:
        return self.max_tokens or max_source_tokens


@dataclass(frozen=True, slots=True)
class OnDemand:
    """A model that is loaded when a request needs it."""

    name: str
    source: str  # language code; empty unless it is a model of one pair, as `target`
    target: str
    reference: str  # a folder, a package, or `firefox:PAIR` if its files may have to be pulled
    files: AnyFiles | None = None  # the catalog reads them at the start; None for one pair


class NotLoadedError(Exception):
    """A route needs a model on demand that is not loaded."""

    def __init__(self, names: tuple[str, ...]) -> None:
        super().__init__(", ".join(names))
        self.names = names


@dataclass(frozen=True, slots=True)
class ServedEmbedder(AnyServed):
    task: ClassVar[str] = EMBED

    files: EmbeddingFiles
    config: EmbeddingConfig
    tokenizer: TextTokenizer
    query: "ServedEmbedder | None" = None  # reads queries, unless it is None

    @classmethod
    def load(cls, files: EmbeddingFiles) -> "ServedEmbedder":
        config = read_config(files)
        query = None if files.query is None else cls.load(files.query)
        return cls(files, config, load_tokenizer(files, config), query)

    @property
    def reader(self) -> TextReader:
        """Returns a TextReader; it has readers of the forms of a text if the forms differ."""
        reader, multi = self._reader, self.config.multi
        if self.query is not None:
            query = replace(self.query.reader, is_query=True)
            return replace(
                reader,
                forms=dict(zip(FORMS, (query, reader), strict=True)),
                default_form=self.files.default_form,
                is_normalized=reader.is_normalized and query.is_normalized,
            )
        if multi is None:
            return reader
        query_tokens, document_tokens = multi.max_tokens
        own = len(reader.before) - len(multi.markers[1:])  # without the marker of documents
        before = [*reader.before[:own], *multi.markers[:1]]
        query = replace(reader, before=before, max_tokens=query_tokens, filler=multi.filler)
        document = replace(reader, max_tokens=document_tokens, skipped=multi.skipped)
        forms = dict(zip(FORMS, (query, document), strict=True))
        return replace(reader, forms=forms, is_multi=True)

    @property
    def _reader(self) -> TextReader:
        return TextReader(
            self.name,
            self.tokenizer.encode,
            *self.tokenizer.special_ids,
            max_tokens=self.config.max_tokens,
            vocab_size=self.config.encoder.vocab_size,
            size=self.config.output_size,
            is_normalized=self.config.is_normalized,
            prompts=self.config.prompts,
            default_prompt=self.config.default_prompt,
            is_sparse=self.config.sparse is not None,
            pools_prompt=self.config.pools_prompt,
        )


@dataclass(frozen=True, slots=True)
class ServedReranker(AnyServed):
    """A cross-encoder. It scores pairs of a query and a text."""

    task: ClassVar[str] = RERANK

    files: CrossEncoderFiles
    config: CrossEncoderConfig
    tokenizer: PairTokenizer | PromptedPairTokenizer

    @classmethod
    def load(cls, files: CrossEncoderFiles) -> "ServedReranker":
        config = read_cross_encoder(files)
        return cls(files, config, load_pair_tokenizer(files, config))


LOAD_SERVED: dict[type, Callable[[Any], AnyServed]] = {
    ModelFiles: ServedModel.load,
    EmbeddingFiles: ServedEmbedder.load,
    CrossEncoderFiles: ServedReranker.load,
}
"""Maps the type of a model's files to the function that loads the served model."""
