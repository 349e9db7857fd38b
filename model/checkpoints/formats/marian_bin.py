"""Reads Marian's `.bin` container: named float and int8 tensors, and the training options.

Source: marian-dev, src/common/binary.cpp (layout) and src/tensors/cpu/intgemm_interface.h
(int8 tensors). No code was copied. The layout was checked with files of real models.
"""

import math
import struct
from collections.abc import Container
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from model.checkpoints.formats.huge_pages import copy_of
from model.checkpoints.formats.mapped_files import map_file
from model.checkpoints.formats.yaml_text import YAML_ERRORS, load_yaml
from model.errors import CheckpointFormatError, UnsupportedModelError
from model.quantization.int8 import QuantizedMatrix, quantize_matrix

VERSION = 1
OPTIONS_ITEM = "special:model.yml"

FLOAT16 = 0x0402
FLOAT32 = 0x0404
INTGEMM8 = 0x4101

FLOATS: dict[int, np.dtype[np.floating[Any]]] = {
    FLOAT16: np.dtype("<f2"),
    FLOAT32: np.dtype("<f4"),
}


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


class MarianFile:
    """The items of a `.bin` file: its tensors, and one item with the training options.

    The file is mapped into memory. `arrays` and `quantized` make arrays from its tensors.

    Args:
        path: The file, already unpacked (not .gz).

    Raises:
        CheckpointFormatError: The file is cut short, is too large, is not a regular file, or is
            not a `.bin` container.
        OSError: The file cannot be read.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.data = map_file(path)
        try:
            items = self._read_items()
        except (struct.error, OverflowError, UnicodeDecodeError) as error:
            raise CheckpointFormatError(f"{path.name} is cut short or damaged: {error}") from error
        self.items = {item.name: item for item in items}
        if len(self.items) < len(items):
            raise CheckpointFormatError(f"{path.name} has two items of the same name")
        end = max((item.offset + item.num_bytes for item in self.items.values()), default=0)
        if end != len(self.data):
            raise CheckpointFormatError(
                f"{path.name} has {len(self.data)} bytes; its items end at {end}"
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
        """Returns the training options in the file.

        Raises:
            CheckpointFormatError: The file has no options, or they are not a YAML mapping.
        """
        item = self.items.get(OPTIONS_ITEM)
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

    def arrays(self, without: Container[str] = ()) -> dict[str, NDArray[np.float32]]:
        """Returns every tensor as float32.

        Matrices have the shape (out, in), and embedding tables have the shape (V, D).

        Args:
            without: Names of tensors to leave out.

        Raises:
            UnsupportedModelError: The type of a tensor is not float16, float32 or int8.
            CheckpointFormatError: A tensor is damaged.
        """
        tensors = {name: item for name, item in self.items.items() if name != OPTIONS_ITEM}
        known = {INTGEMM8, *FLOATS}
        unknown = [
            f"{i.name} has type {i.type:#x}" for i in tensors.values() if i.type not in known
        ]
        if unknown:
            raise UnsupportedModelError(self.path.name, unknown)
        return {name: self._array(i) for name, i in tensors.items() if name not in without}

    def _array(self, item: Item) -> NDArray[np.float32]:
        if item.type not in FLOATS:
            values, multiplier = self._integers(item)
            return values.astype(np.float32, order="C") / np.float32(multiplier)
        is_matrix = len(item.shape) == 2 and min(item.shape) > 1
        self._check(item, item.size * FLOATS[item.type].itemsize)
        floats = np.frombuffer(self.data, FLOATS[item.type], item.size, item.offset)
        array = floats.reshape(item.shape).astype(np.float32)
        return np.ascontiguousarray(array.T) if is_matrix and not is_table(item.name) else array

    def _integers(self, item: Item) -> tuple[NDArray[np.int8], float]:
        """Returns the int8 values of a tensor and its multiplier.

        A value divided by the multiplier is a weight. The values are a view of the file's bytes. In
        the file, the multiplier follows the values.
        """
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
        return any(i.type == INTGEMM8 for i in self.items.values() if min(i.shape, default=0) > 1)

    def quantized(self, name: str) -> QuantizedMatrix:
        """Returns an int8 matrix (out, in) or table (V, D). A float matrix is rounded to int8.

        Raises:
            CheckpointFormatError: The tensor is damaged.

        Source: marian-dev, src/tensors/cpu/intgemm_interface.h.
        """
        item = self.items[name]
        if item.type == INTGEMM8:
            values, multiplier = self._integers(item)
            step = np.float32(1) / np.float32(multiplier)
            return QuantizedMatrix(copy_of(values), np.full(len(values), step))
        return quantize_matrix(self._array(item))

    def _check(self, item: Item, needed: int) -> None:
        is_cut = needed > item.num_bytes or item.offset + item.num_bytes > len(self.data)
        if is_cut or min(item.shape, default=0) < 0:
            raise CheckpointFormatError(
                f"{self.path.name}: {item.name} of shape {item.shape} needs {needed} bytes; "
                f"the file holds {min(item.num_bytes, len(self.data) - item.offset)}"
            )


def is_table(name: str) -> bool:
    """Returns whether a tensor with this name is an embedding table.

    A model needs a table in the shape (V, D), and other matrices in the shape (out, in).
    """
    return "Wemb" in name or name.endswith("_Wt")
