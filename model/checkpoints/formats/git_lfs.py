"""Recognises pointers of Git LFS, which a clone without Git LFS has in place of large files."""

from collections.abc import Iterable
from pathlib import Path

from model.errors import CheckpointFormatError
from model.regular_files import MAX_WEIGHT_BYTES, check_file

FIRST_LINE = b"version https://git-lfs.github.com/spec/v1"
"""First line of every pointer. Source: git-lfs, docs/spec.md."""


def check_pointers(paths: Iterable[Path]) -> None:
    """Refuses files that are pointers of Git LFS.

    Args:
        paths: The files of a model. Missing files and folders are skipped.

    Raises:
        CheckpointFormatError: A file is a pointer, is too large, or is not a regular file. The
            message names all files that are pointers.
        OSError: A file cannot be read.
    """
    there = [path for path in dict.fromkeys(paths) if path.exists() and not path.is_dir()]
    found = [path for path in there if is_pointer(path)]
    if found:
        names = ", ".join(map(str, found))
        raise CheckpointFormatError(
            f"{names}: pointers of Git LFS, not the files themselves. Fetch them with "
            "`git lfs pull`, or download them"
        )


def is_pointer(path: Path) -> bool:
    check_file(path, MAX_WEIGHT_BYTES)
    with path.open("rb") as file:
        return file.read(len(FIRST_LINE)) == FIRST_LINE
