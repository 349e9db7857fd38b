"""Refuses files that block or fill the memory: pipes, devices, and files that are too large."""

import stat
from pathlib import Path

from model.errors import CheckpointFormatError

MAX_TEXT_BYTES = 2**27
"""Largest size of a JSON, YAML or tokenizer file. The whole file is read into memory."""

MAX_WEIGHT_BYTES = 2**36


def check_file(path: Path, max_bytes: int = MAX_TEXT_BYTES) -> None:
    # A folder passes, because the code that opens it reports a more precise error.
    found = path.stat()
    if not (stat.S_ISREG(found.st_mode) or stat.S_ISDIR(found.st_mode)):
        raise CheckpointFormatError(
            f"{path} is not a regular file but a pipe, a socket or a device; remove it"
        )
    if found.st_size > max_bytes:
        raise CheckpointFormatError(
            f"{path} has {found.st_size} bytes; the limit for this type of file is {max_bytes}"
        )
