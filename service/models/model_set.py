"""What processes tell each other of the models that are served."""

from dataclasses import dataclass

from model.checkpoints.families.sentence_transformers import EmbeddingFiles
from model.checkpoints.load import ModelFiles


@dataclass(frozen=True, slots=True)
class ModelSet:
    """Which models are served, by their files."""

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
