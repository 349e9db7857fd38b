"""Which models are served, and which language pairs they make."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from model.checkpoints.load import ModelFiles, Vocabularies, find_models, load_vocabularies
from model.errors import CheckpointError
from service.errors import UnsupportedLanguageError
from service.languages import match_language


@dataclass(frozen=True, slots=True)
class ServedModel:
    """A translation model, less its weights: those are in the workers."""

    files: ModelFiles
    vocabularies: Vocabularies

    @property
    def name(self) -> str:
        """What it is called, in the API and in metrics."""
        return self.files.name


class Catalog:
    """The served models by pair of languages.

    Args:
        models: One for each pair.

    Raises:
        CheckpointError: Two are for the same pair.
    """

    def __init__(self, models: Sequence[ServedModel]) -> None:
        self.models = {model.name: model for model in models}
        if len(self.models) < len(models):
            names = [model.name for model in models]
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
        files = [files for reference in references for files in find_models(reference)]
        return cls([ServedModel(f, load_vocabularies(f)) for f in files])

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
