"""Files that get their name only when they are complete."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import IO


@contextmanager
def complete_file(path: Path) -> Iterator[IO[bytes]]:
    """Yields a temporary file in the folder of `path`, and renames it to `path` at the end.

    Missing folders are made first. After an error the temporary file is deleted, and an older file
    at `path` is kept.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with NamedTemporaryFile(dir=path.parent, prefix=f".{path.name}.", delete=False) as file:
        try:
            yield file
            file.flush()
            os.fchmod(file.fileno(), 0o666 & ~_umask())
            os.replace(file.name, path)
        except BaseException:
            os.unlink(file.name)
            raise


def _umask() -> int:
    """Returns the umask of the process. The umask can be read only by setting a new umask."""
    mask = os.umask(0o077)
    os.umask(mask)
    return mask
