"""The served models without their weights; only the workers have the weights."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Protocol

from model.checkpoints.families.cross_encoders import (
    CrossEncoderConfig,
    CrossEncoderFiles,
    load_pair_tokenizer,
    read_cross_encoder,
)
from model.checkpoints.families.sentence_transformers import (
    EmbeddingFiles,
    load_tokenizer,
    read_config,
)
from model.checkpoints.load import ModelFiles, Vocabularies, load_vocabularies
from model.embedding_config import EmbeddingConfig
from model.tokenization.pairs import PairTokenizer
from model.tokenization.text import TextTokenizer
from model.tokenization.tokenizer import Tokenizer
from service.errors import UnsupportedLanguageError
from service.items import EMBED, RERANK, TRANSLATE
from service.models.text_reader import TextReader
from service.workers.messages import AnyFiles

ModelState = Literal["loading", "ready", "unloading", "failed"]
"""State of one model, as `GET /v1/models` reports it."""


class AnyServed(Protocol):
    """A served model of any type, with the name of the task that it was made for."""

    @property
    def files(self) -> AnyFiles: ...

    @property
    def name(self) -> str: ...

    @property
    def task(self) -> str: ...


@dataclass(frozen=True, slots=True)
class ServedModel:
    """A translation model."""

    task: ClassVar[str] = TRANSLATE

    files: ModelFiles
    vocabularies: Vocabularies

    @classmethod
    def load(cls, files: ModelFiles) -> "ServedModel":
        return cls(files, load_vocabularies(files))

    @property
    def name(self) -> str:
        return self.files.name

    def reader(self, max_tokens: int) -> TextReader:
        """Returns a TextReader for embedding texts with the model's encoder.

        Translation puts certain tokens before a source sentence. The reader puts the same tokens
        before a text. In a multilingual model, one of them is the token of the request's language.

        Args:
            max_tokens: Largest number of tokens, EOS and language token included. Longer texts are
                truncated.
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
                f"{self.name} does not translate from {source} to {target}", target, source
            )
        if files.source or files.tokens is None:
            return Direction(self.name, source, target, self.vocabularies)
        vocabularies = self.vocabularies.between(files.tokens, source, target)
        return Direction(self.name, source, target, vocabularies)


@dataclass(frozen=True, slots=True)
class Direction:
    """One language pair of a model.

    Attributes:
        vocabularies: Tokenizers of the two languages. If the model has language tokens, the
            tokenizers put the tokens of this pair before texts.
        max_tokens: Largest number of tokens of a sentence, EOS included; 0 if the limit of the
            server applies.
        has_attention: Whether the attention of the model can be inspected.
    """

    name: str
    source: str
    target: str
    vocabularies: Vocabularies
    max_tokens: int = 0
    has_attention: bool = True

    def limit(self, max_source_tokens: int) -> int:
        return self.max_tokens or max_source_tokens


@dataclass(frozen=True, slots=True)
class ServedEmbedder:
    """An embedding model."""

    task: ClassVar[str] = EMBED

    files: EmbeddingFiles
    config: EmbeddingConfig
    tokenizer: TextTokenizer

    @classmethod
    def load(cls, files: EmbeddingFiles) -> "ServedEmbedder":
        config = read_config(files)
        return cls(files, config, load_tokenizer(files, config))

    @property
    def name(self) -> str:
        return self.files.name

    @property
    def reader(self) -> TextReader:
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
        )


@dataclass(frozen=True, slots=True)
class ServedReranker:
    """A cross-encoder. It scores pairs of a query and a text."""

    task: ClassVar[str] = RERANK

    files: CrossEncoderFiles
    config: CrossEncoderConfig
    tokenizer: PairTokenizer

    @classmethod
    def load(cls, files: CrossEncoderFiles) -> "ServedReranker":
        config = read_cross_encoder(files)
        return cls(files, config, load_pair_tokenizer(files, config))

    @property
    def name(self) -> str:
        return self.files.name


LOAD_SERVED: dict[type, Callable[[Any], AnyServed]] = {
    ModelFiles: ServedModel.load,
    EmbeddingFiles: ServedEmbedder.load,
    CrossEncoderFiles: ServedReranker.load,
}
"""Maps the type of a model's files to the function that loads the served model."""
