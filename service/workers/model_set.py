"""The set of served models; each model is represented by its files."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol


class AnyFiles(Protocol):
    """Describes the files of one model, as `ModelFiles` does. A remote model has no files."""

    @property
    def name(self) -> str:
        """Served name of the model."""

    @property
    def folder(self) -> Path:
        """Folder that holds the files; an empty path for a remote model."""

    @property
    def revision(self) -> str:
        """First digits of a checksum of the weights, or of a remote model's name and address."""


@dataclass(frozen=True, slots=True)
class ModelSet:
    """Models, and the devices and dtypes of single models.

    Attributes:
        files: Files of each model. The models of the settings come first, then the models that were
            loaded later, in the order of loading.
        placements: Maps a model's folder to its device and dtype; "" means the server's setting.
            A model whose folder is not a key has the server's settings.
    """

    files: tuple[AnyFiles, ...] = ()
    placements: Mapping[str, tuple[str, str]] = field(default_factory=dict)

    @property
    def names(self) -> set[str]:
        """Served names of all models."""
        return {files.name for files in self.files}

    def with_model(self, files: AnyFiles) -> "ModelSet":
        """Returns the set with one more model."""
        return replace(self, files=(*self.files, files))

    def with_placements(self, placements: Mapping[str, tuple[str, str]]) -> "ModelSet":
        """Returns the set with the placements of more models."""
        return replace(self, placements={**self.placements, **placements})

    def without(self, name: str) -> "ModelSet":
        """Returns the set without one model, and without the placement of its folder."""
        files = tuple(each for each in self.files if each.name != name)
        folders = {str(each.folder) for each in self.files if each.name == name}
        used = {str(each.folder) for each in files}
        placements = {
            folder: placement
            for folder, placement in self.placements.items()
            if folder not in folders or folder in used
        }
        return replace(self, files=files, placements=placements)

    def placement(self, files: AnyFiles) -> tuple[str, str]:
        """Returns the device and dtype of a model; "" stands for the server's setting."""
        return self.placements.get(str(files.folder), ("", ""))
