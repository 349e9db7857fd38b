"""Reads Marian's containers: `.bin` files, and the `.npz` files of training.

Both hold named float tensors and the training options; `.bin` files may hold int8 tensors.

Source: marian-dev, src/common/binary.cpp (layout) and src/tensors/cpu/intgemm_interface.h
(int8 tensors). No code was copied. The layout was checked with files of real models.
"""

import math
import struct
import zipfile
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from model.checkpoints.formats.files import YAML_ERRORS, Integers, TensorFile, load_yaml, map_file
from model.errors import CheckpointFormatError, UnsupportedModelError
from model.regular_files import MAX_WEIGHT_BYTES, check_file

VERSION = 1
OPTIONS_ITEM = "special:model.yml"

FLOAT16 = 0x0402
FLOAT32 = 0x0404
INTGEMM8 = 0x4101

FLOATS: dict[int, np.dtype[np.floating[Any]]] = {FLOAT16: np.dtype("<f2"), FLOAT32: np.dtype("<f4")}
TYPES = {dtype: kind for kind, dtype in FLOATS.items()}
BYTES = (np.dtype(np.int8), np.dtype(np.uint8))
DAMAGE = (
    *(OSError, EOFError, ValueError, KeyError, RuntimeError, MemoryError),
    *(zipfile.BadZipFile, zlib.error),
)
"""Errors for a file that is missing or damaged, is not an archive, or has Python objects."""

MAX_RATIO = 20
"""Largest ratio of the unpacked size of an `.npz` file to its size."""


@dataclass(frozen=True, slots=True)
class Item:
    """The place, type and shape of one entry of the container."""

    name: str
    type: int
    shape: tuple[int, ...]
    offset: int
    num_bytes: int

    @property
    def size(self) -> int:
        return math.prod(self.shape)


class MarianFile(TensorFile):
    """The items of a mapped `.bin` file: its tensors, and one item with the training options.

    The tensors are matrices (out, in), embedding tables (V, D) and vectors, as float32.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.data = map_file(path)
        try:
            items = self._read_items()
        except (struct.error, OverflowError, UnicodeDecodeError) as error:
            raise CheckpointFormatError(f"{path.name} is cut short or damaged: {error}") from error
        self.entries = {item.name: item for item in items}
        if len(self.entries) < len(items):
            raise CheckpointFormatError(f"{path.name} has two items of the same name")
        end = max((item.offset + item.num_bytes for item in items), default=0)
        if end != len(self.data):
            raise CheckpointFormatError(
                f"{path.name} has {len(self.data)} bytes; its items end at {end}"
            )
        self.options_item = self.entries.pop(OPTIONS_ITEM, None)
        known = {INTGEMM8, *FLOATS}
        unknown = [i for i in self.entries.values() if i.type not in known]
        if unknown:
            raise UnsupportedModelError(
                path.name, [f"{i.name} has type {i.type:#x}" for i in unknown]
            )

    def _read_items(self) -> list[Item]:
        version, count = struct.unpack_from("<QQ", self.data, 0)
        if version != VERSION:
            raise CheckpointFormatError(
                f"{self.path.name} is not a Marian .bin file of version {VERSION} "
                f"(its first number is {version})"
            )
        if 16 + 32 * count > len(self.data):
            raise CheckpointFormatError(
                f"{self.path.name} is cut short: it announces {count} items"
            )
        headers = [struct.unpack_from("<4Q", self.data, 16 + 32 * i) for i in range(count)]
        offset = 16 + 32 * count
        names, shapes = [], []
        for name_length, _type, _rank, _size in headers:
            names.append(self.data[offset : offset + name_length].rstrip(b"\0").decode())
            offset += name_length
        for _name_length, _type, rank, _size in headers:
            shapes.append(struct.unpack_from(f"<{rank}i", self.data, offset))
            offset += 4 * rank
        (padding,) = struct.unpack_from("<Q", self.data, offset)
        offset += 8 + padding
        items = []
        for name, shape, (_, kind, _, num_bytes) in zip(names, shapes, headers, strict=True):
            items.append(Item(name, kind, shape, offset, num_bytes))
            offset += num_bytes
        return items

    def options(self) -> dict[str, Any]:
        item = self.options_item
        if item is None:
            raise CheckpointFormatError(f"{self.path.name} has no {OPTIONS_ITEM}")
        text = self.data[item.offset : item.offset + item.num_bytes].rstrip(b"\0")
        try:
            options = load_yaml(text)
        except YAML_ERRORS as error:
            raise CheckpointFormatError(f"{self.path.name}: {OPTIONS_ITEM}: {error}") from error
        if not isinstance(options, dict):
            raise CheckpointFormatError(f"{self.path.name}: {OPTIONS_ITEM} is not a mapping")
        return cast("dict[str, Any]", options)

    def __getitem__(self, name: str) -> NDArray[np.float32]:
        item = self.entries[name]
        if item.type not in FLOATS:
            values, multiplier = self._integers(item)
            return values.astype(np.float32, order="C") / np.float32(multiplier)
        is_matrix = len(item.shape) == 2 and min(item.shape) > 1
        self._check(item, item.size * FLOATS[item.type].itemsize)
        floats = np.frombuffer(self.data, FLOATS[item.type], item.size, item.offset)
        array = floats.reshape(item.shape).astype(np.float32)
        return np.ascontiguousarray(array.T) if is_matrix and not is_table(name) else array

    def integers(self, name: str) -> Integers | None:
        item = self.entries[name]
        if item.type != INTGEMM8:
            return None
        values, multiplier = self._integers(item)
        return values, np.full(len(values), np.float32(1) / np.float32(multiplier))

    def _integers(self, item: Item) -> tuple[NDArray[np.int8], float]:
        """Returns a view of int8 values, and their multiplier, by which they are divided."""
        self._check(item, item.size + 4)
        values = np.frombuffer(self.data, np.int8, item.size, item.offset)
        (multiplier,) = struct.unpack_from("<f", self.data, item.offset + item.size)
        if not multiplier > 0:
            raise CheckpointFormatError(
                f"{self.path.name}: {item.name} has {multiplier} as its int8 multiplier"
            )
        # The header of an int8 matrix has the shape (in, out), but the bytes are in the order
        # (out, in). The returned array keeps the order of the bytes. The bytes of a table _Wt of
        # shape (V, D) are in the order (D, V), so the array is transposed back to (V, D). Tables
        # named Wemb are the exception: their bytes are in the order of the header's shape.
        array = values.reshape(item.shape if "Wemb" in item.name else item.shape[::-1])
        is_turned = is_table(item.name) and "Wemb" not in item.name
        return (array.T if is_turned else array), multiplier

    @property
    def is_quantized(self) -> bool:
        matrices = (i for i in self.entries.values() if min(i.shape, default=0) > 1)
        return any(i.type == INTGEMM8 for i in matrices)

    def _check(self, item: Item, needed: int) -> None:
        is_cut = needed > item.num_bytes or item.offset + item.num_bytes > len(self.data)
        if is_cut or min(item.shape, default=0) < 0:
            raise CheckpointFormatError(
                f"{self.path.name}: {item.name} of shape {item.shape} needs {needed} bytes; "
                f"the file holds {min(item.num_bytes, len(self.data) - item.offset)}"
            )


def is_table(name: str) -> bool:
    """Returns whether the name is that of a table (V, D), not of a matrix (out, in)."""
    return "Wemb" in name or name.endswith("_Wt")


class MarianNpz(MarianFile):
    """The items of an `.npz` file, with the names and the layout of a `.bin` file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        arrays = _read(path)
        self.entries = {}
        blobs, offset, unknown = [], 0, []
        for name, array in arrays.items():
            kind = TYPES.get(array.dtype, 0)
            if not kind and not (name == OPTIONS_ITEM and array.dtype in BYTES):
                unknown.append(f"{name} has type {array.dtype}")
            blobs.append(array.tobytes())
            self.entries[name] = Item(name, kind, array.shape, offset, len(blobs[-1]))
            offset += len(blobs[-1])
        if unknown:
            raise UnsupportedModelError(path.name, unknown)
        self.options_item = self.entries.pop(OPTIONS_ITEM, None)
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
