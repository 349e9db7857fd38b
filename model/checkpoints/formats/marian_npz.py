"""Reads the `.npz` files that Marian writes in training.

They hold the same items as `.bin` files: the tensors, and the training options.
"""

import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from model.checkpoints.formats.marian_bin import FLOATS, OPTIONS_ITEM, Item, MarianFile
from model.errors import CheckpointFormatError, UnsupportedModelError
from model.regular_files import MAX_WEIGHT_BYTES, check_file

TYPES = {dtype: kind for kind, dtype in FLOATS.items()}
BYTES = (np.dtype(np.int8), np.dtype(np.uint8))
DAMAGE = (
    *(OSError, EOFError, ValueError, KeyError, RuntimeError, MemoryError),
    *(zipfile.BadZipFile, zlib.error),
)
"""Errors for a file that is missing or damaged, is not an archive, or has Python objects."""


MAX_RATIO = 20
"""Largest ratio of the unpacked size to the size of the file."""


class MarianNpz(MarianFile):
    """The items of an `.npz` file, with the names and the layout of a `.bin` file.

    Args:
        path: The file. A file with Python objects is refused before they are unpickled.

    Raises:
        CheckpointFormatError: The file cannot be read, is too large, is not an `.npz` file, or
            holds Python objects.
        UnsupportedModelError: A tensor is neither float16 nor float32.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        arrays = _read(path)
        self.items = {}
        blobs, offset, unknown = [], 0, []
        for name, array in arrays.items():
            kind = TYPES.get(array.dtype, 0)
            if not kind and not (name == OPTIONS_ITEM and array.dtype in BYTES):
                unknown.append(f"{name} has type {array.dtype}")
            blobs.append(array.tobytes())
            self.items[name] = Item(name, kind, array.shape, offset, len(blobs[-1]))
            offset += len(blobs[-1])
        if unknown:
            raise UnsupportedModelError(path.name, unknown)
        self.data = b"".join(blobs)


def _read(path: Path) -> dict[str, NDArray[Any]]:
    try:
        check_file(path, MAX_WEIGHT_BYTES)
        with path.open("rb") as file:
            archive = np.load(file, allow_pickle=False)
            if not isinstance(archive, np.lib.npyio.NpzFile):
                raise CheckpointFormatError(f"{path.name} is one array, not an archive of several")
            infos = archive.zip.infolist() if archive.zip is not None else []
            num_bytes = sum(info.file_size for info in infos)
            if num_bytes > MAX_RATIO * path.stat().st_size:
                raise CheckpointFormatError(
                    f"{path.name} unpacks to {num_bytes} bytes, more than {MAX_RATIO} times its "
                    "size"
                )
            arrays = {name: archive[name] for name in archive.files}
    except DAMAGE as error:
        raise CheckpointFormatError(
            f"{path.name} is cut short or damaged, or cannot be read: {error}"
        ) from error
    strange = [name for name, array in arrays.items() if not isinstance(array, np.ndarray)]
    if strange:
        raise CheckpointFormatError(
            f"{path.name} holds {', '.join(strange)}, which is not an array"
        )
    return arrays
