"""Which models are served, and which language pairs they make."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from model.checkpoints.load import ModelFiles, Vocabularies, find_models, load_vocabularies
from model.errors import CheckpointError
from service.errors import UnsupportedLanguageError
from service.languages import match_language

PIVOT = "en"
"""The language that two models meet in where no one model has a pair."""


@dataclass(frozen=True, slots=True)
class ServedModel:
    """A translation model, less its weights: those are in the workers."""

    files: ModelFiles
    vocabularies: Vocabularies

    @property
    def name(self) -> str:
        """What it is called, in the API and in metrics."""
        return self.files.name

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


class Catalog:
    """The served models by pair of languages.

    Args:
        models: One for each name.
        offered: Codes of the languages to offer, where not all that the models have.

    Raises:
        CheckpointError: Two have the same name, or none has a language that is to be offered.
    """

    def __init__(self, models: Sequence[ServedModel], offered: Collection[str] = ()) -> None:
        self.models = {model.name: model for model in models}
        if len(self.models) < len(models):
            names = [model.name for model in models]
            twice = sorted({name for name in names if names.count(name) > 1})
            raise CheckpointError(f"more than one model for {', '.join(twice)}; name only one")
        self.pairs = {(m.files.source, m.files.target): m for m in models if m.files.source}
        self.broad = [model for model in models if not model.files.source]
        files = [model.files for model in models]
        self.languages = sorted({code for f in files for code in (*f.sources, *f.targets)})
        if offered:
            self.languages = sorted({self._offered(code) for code in offered})

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
        files = [files for reference in references for files in find_models(reference)]
        return cls([ServedModel(f, load_vocabularies(f)) for f in files], offered)

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
        if source == target:
            return ()
        if direct := self.direct(source, target):
            return (direct,)
        first, second = self.direct(source, PIVOT), self.direct(PIVOT, target)
        if first is None or second is None:
            raise UnsupportedLanguageError(
                f"{target} is not available as a target language from {source}; "
                f"available: {', '.join(self.targets(source))}"
            )
        return first, second

    def direct(self, source: str, target: str) -> Direction | None:
        """The one model that has a pair; None without."""
        if source == target:
            return None
        if own := self.pairs.get((source, target)):
            return Direction(own.name, source, target, own.vocabularies)
        for model in self.broad:
            if source in model.files.sources and target in model.files.targets:
                return model.direction(source, target)
        return None
