"""Finds the files of models, in folders and installed packages, and names models after folders."""

import os
import re
from collections.abc import Iterator, Sequence
from importlib import metadata
from pathlib import Path

from model.errors import CheckpointNotFoundError

PACKAGE = "package:"
UNUSUAL = re.compile(r"[^A-Za-z0-9._+-]+")


def files_of(reference: str) -> list[Path]:
    if not reference.startswith(PACKAGE):
        root = Path(reference)
        if not root.is_dir():
            raise CheckpointNotFoundError(
                f"{root} is not a folder; name one, or a reference such as {PACKAGE}NAME"
            )
        return list(files_below(root))
    package = reference.removeprefix(PACKAGE)
    try:
        return [Path(str(file.locate())) for file in metadata.files(package) or []]
    except (metadata.PackageNotFoundError, ValueError) as error:  # ValueError: the name is empty
        raise CheckpointNotFoundError(
            f"the package {package} is not installed; install it, or name a folder"
        ) from error


def files_below(root: Path) -> Iterator[Path]:
    """Yields the files below a folder. Links are followed; each folder is visited once."""
    visited = {root.resolve()}
    for parent, folders, names in os.walk(root, followlinks=True):
        new = {Path(parent, name).resolve(): name for name in sorted(folders, reverse=True)}
        folders[:] = sorted(name for real, name in new.items() if real not in visited)
        visited.update(new)
        for name in names:
            yield Path(parent, name)


def package_titles(reference: str, folders: Sequence[Path]) -> list[str]:
    """Returns a unique name for each model of a package (`package:NAME`), given their folders.

    Each name begins with the package's name. The path from the common folder tells several apart.
    """
    name = metadata.distribution(reference.removeprefix(PACKAGE)).name
    package = title_of(Path(name.replace("-", "_")))
    if len(folders) == 1:
        return [package]
    common = os.path.commonpath(folders)
    paths = [folder.relative_to(common).parts or (folder.name,) for folder in folders]
    return [title_of(Path("-".join([package, *parts]))) for parts in paths]


def title_of(folder: Path) -> str:
    """Returns the name of the model in a folder: the folder's name, or the repository's.

    In the cache of the Hugging Face hub the folder is models--OWNER--NAME/snapshots/REVISION, and
    the model is called NAME. Names are used in URLs, so unusual characters become hyphens.
    """
    path = folder.absolute()
    repository = path.parent.parent.name
    is_cached = path.parent.name == "snapshots" and repository.startswith("models--")
    name = repository.rpartition("--")[2] if is_cached else name_of(folder)
    return UNUSUAL.sub("-", name)


def name_of(folder: Path) -> str:
    return folder.resolve().name if folder.name in ("", "..") else folder.name
