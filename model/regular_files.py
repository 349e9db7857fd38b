"""Checks the type and the size of a file before it is read.

A model's folder may hold anything. A named pipe would block its reader forever. A link to /dev/zero
has no end.
"""

import stat
from pathlib import Path

from model.errors import CheckpointFormatError

MAX_TEXT_BYTES = 2**27
"""Largest size of a JSON or YAML file and of a tokenizer, which are read into memory as a whole."""

MAX_WEIGHT_BYTES = 2**36
"""Largest size of a file of tensors."""


def check_file(path: Path, max_bytes: int = MAX_TEXT_BYTES) -> None:
    """Refuses a file that is neither a regular file nor a folder, or that is too large.

    A folder passes, because its reader refuses it with a more precise message.

    Raises:
        CheckpointFormatError: The path leads to a pipe, a socket or a device, or to a file that is
            too large.
        OSError: There is no such file.
    """
    found = path.stat()
    if not (stat.S_ISREG(found.st_mode) or stat.S_ISDIR(found.st_mode)):
        raise CheckpointFormatError(
            f"{path} is not a regular file but a pipe, a socket or a device; remove it"
        )
    if found.st_size > max_bytes:
        raise CheckpointFormatError(
            f"{path} has {found.st_size} bytes; the limit for this type of file is {max_bytes}"
        )
