"""Writes files that exist completely or not at all."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from secrets import token_hex
from typing import IO

PARTIAL = ".part"
"""Suffix of a file that is not complete yet."""


@contextmanager
def complete_file(
    path: Path, is_durable: bool = False, folder: Path | None = None
) -> Iterator[IO[bytes]]:
    """Yields a temporary file in a folder, by default that of `path`; renames it at the end.

    After an error the temporary file is deleted, and an older file at `path` is kept. With
    `is_durable`, the bytes and the new name are on the disk when the context ends.
    """
    folder = folder or path.parent
    folder.mkdir(parents=True, exist_ok=True)
    part = folder / f".{path.name}.{token_hex(4)}{PARTIAL}"
    with part.open("xb+") as file:
        try:
            yield file
            file.flush()
            if is_durable:
                os.fsync(file.fileno())
            os.replace(part, path)
        except BaseException:
            part.unlink()
            raise
    if is_durable:
        sync_folder(path.parent)


def sync_folder(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
