"""Writes files that exist completely or not at all."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import IO

PARTIAL = ".part"
"""Suffix of a file that is not complete yet."""


@contextmanager
def complete_file(path: Path, is_durable: bool = False) -> Iterator[IO[bytes]]:
    """Yields a temporary file in the folder of `path`, and renames it to `path` at the end.

    After an error the temporary file is deleted, and an older file at `path` is kept. With
    `is_durable`, the bytes and the new name are on the disk when the context ends.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    prefix, folder = f".{path.name}.", path.parent
    with NamedTemporaryFile(dir=folder, prefix=prefix, suffix=PARTIAL, delete=False) as file:
        try:
            yield file
            file.flush()
            os.fchmod(file.fileno(), 0o666 & ~_umask())
            if is_durable:
                os.fsync(file.fileno())
            os.replace(file.name, path)
        except BaseException:
            os.unlink(file.name)
            raise
    if is_durable:
        sync_folder(folder)


def sync_folder(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _umask() -> int:
    mask = os.umask(0o077)  # the umask can be read only by setting a new one
    os.umask(mask)
    return mask
