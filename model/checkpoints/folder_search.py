"""Finds the files of models: below a folder, or in an installed package.

Does not import torch.
"""

import os
from collections.abc import Iterator, Sequence
from importlib import metadata
from pathlib import Path

from model.checkpoints.folder_names import title_of
from model.errors import CheckpointNotFoundError

PACKAGE = "package:"


def files_of(reference: str) -> list[Path]:
    """Returns every file below a folder or in a package.

    Args:
        reference: A folder, or `package:NAME`.

    Raises:
        CheckpointNotFoundError: There is no such folder or package.
    """
    if reference.startswith(PACKAGE):
        return installed_files(reference.removeprefix(PACKAGE))
    root = Path(reference)
    if not root.is_dir():
        raise CheckpointNotFoundError(f"{root} is not a folder")
    return list(files_below(root))


def files_below(root: Path) -> Iterator[Path]:
    """Yields the files in a folder and its subfolders. Symbolic links are followed.

    A folder is visited only once, even if several links lead to it.
    """
    visited = {root.resolve()}
    for parent, folders, names in os.walk(root, followlinks=True):
        new = {Path(parent, name).resolve(): name for name in sorted(folders, reverse=True)}
        folders[:] = sorted(name for real, name in new.items() if real not in visited)
        visited.update(new)
        for name in names:
            yield Path(parent, name)


def installed_files(package: str) -> list[Path]:
    """Returns the files of an installed package without importing the package.

    Raises:
        CheckpointNotFoundError: There is no such package.
    """
    try:
        return [Path(str(file.locate())) for file in metadata.files(package) or []]
    except (metadata.PackageNotFoundError, ValueError) as error:  # ValueError: the name is empty
        raise CheckpointNotFoundError(
            f"the package {package} is not installed; install it, or name a folder"
        ) from error


def package_titles(reference: str, folders: Sequence[Path]) -> list[str]:
    """Returns a unique name for each model of a package.

    A single model gets the package's name, which is unique. If there are several models, each
    model gets the package's name followed by the path of its folder. The path begins below the
    folder that contains all of the models.

    Args:
        reference: `package:NAME`.
        folders: The folders of the package's models.
    """
    name = metadata.distribution(reference.removeprefix(PACKAGE)).name
    package = title_of(Path(name.replace("-", "_")))
    if len(folders) == 1:
        return [package]
    common = os.path.commonpath(folders)
    paths = [folder.relative_to(common).parts or (folder.name,) for folder in folders]
    return [title_of(Path("-".join([package, *parts]))) for parts in paths]
