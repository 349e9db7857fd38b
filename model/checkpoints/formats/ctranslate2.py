"""Reads `model.bin` of CTranslate2: named tensors, and the specification that they fill.

Does not import torch.

Source: OpenNMT/CTranslate2, python/ctranslate2/specs/model_spec.py (`_serialize`, `_quantize`) and
src/models/model.cc (older versions). No code was copied.
"""

import math
import re
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from model.checkpoints.formats.files import Integers, TensorFile, map_file
from model.errors import CheckpointFormatError

VERSIONS = range(2, 7)
"""Binary versions. Before version 4, a tensor has the width of its values and no type."""

TYPED, ALIASED = 4, 3
"""First binary versions with types of tensors, and with aliases."""

DTYPES: tuple[str, ...] = ("<f4", "<i1", "<i2", "<i4", "<f2", "bfloat16")
WIDTHS = {4: "<f4", 2: "<i2", 1: "<i1"}
MAX_RANK = 4
WEIGHT = re.compile(r"/linear_\d/weight$")
"""Matches the matrix of a linear layer. The layer adds zeros if the file has no bias for it."""


@dataclass(frozen=True, slots=True)
class Variable:
    """A tensor of the file; `dtype` is a name of numpy, or `bfloat16`."""

    name: str  # the main one, if the tensor has several
    dtype: str
    shape: tuple[int, ...]
    offset: int | None  # None for zeros, which are not in the file


class CTranslate2File(TensorFile):
    """The tensors of a mapped `model.bin`. A tensor may have several names."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.data = map_file(path)
        self.place = 0
        self.entries: dict[str, Variable] = {}
        try:
            self._read()
        except (struct.error, UnicodeDecodeError, IndexError, KeyError) as error:
            raise self._damaged(str(error)) from error

    def _damaged(self, reason: str) -> CheckpointFormatError:
        return CheckpointFormatError(f"{self.path.name} is cut short or damaged: {reason}")

    def _read(self) -> None:
        self.version = self._number("<I")
        if self.version not in VERSIONS:
            raise CheckpointFormatError(
                f"{self.path} has the binary version {self.version}; CTranslate2's versions "
                f"{VERSIONS[0]} to {VERSIONS[-1]} are read"
            )
        self.spec, self.revision = self._text(), self._number("<I")
        for _ in range(self._number("<I")):
            name = self._text()
            self.entries[name] = self._variable(name)
        for _ in range(self._number("<I") if self.version >= ALIASED else 0):
            alias, name = self._text(), self._text()
            if name not in self.entries:
                raise self._damaged(f"{alias} stands for {name}, which is missing")
            self.entries[alias] = self.entries[name]
        for name in [name for name in self.entries if WEIGHT.search(name)]:
            bias = f"{name.removesuffix('weight')}bias"
            self.entries.setdefault(bias, Variable(bias, "<f4", self.shape(name)[:1], None))
        if self.place != len(self.data):
            raise self._damaged(f"it has {len(self.data)} bytes; its contents end at {self.place}")

    def _number(self, kind: str) -> int:
        (value,) = struct.unpack_from(kind, self.data, self.place)
        self.place += struct.calcsize(kind)
        return int(value)

    def _text(self) -> str:
        length = self._number("<H")
        start, self.place = self.place, self.place + length
        if not length or self.place > len(self.data) or self.data[self.place - 1]:
            raise self._damaged("a name has no end")
        return self.data[start : self.place - 1].decode()

    def _variable(self, name: str) -> Variable:
        rank = self._number("<B")
        if rank > MAX_RANK:
            raise self._damaged(f"{name} has {rank} dimensions")
        shape = tuple(self._number("<I") for _ in range(rank))
        kind, size = self._number("<B"), self._number("<I")
        dtype = DTYPES[kind] if self.version >= TYPED else WIDTHS[kind]
        width = 2 if dtype == "bfloat16" else np.dtype(dtype).itemsize
        num_bytes = size if self.version >= TYPED else size * width
        start, self.place = self.place, self.place + num_bytes
        if num_bytes != math.prod(shape) * width or self.place > len(self.data):
            raise self._damaged(f"{name} of shape {shape} has {num_bytes} bytes")
        return Variable(name, dtype, shape, start)

    def scalar(self, name: str, default: float) -> float:
        if name not in self:
            return default
        values = self._values(name)
        if values.size != 1:
            raise self._damaged(f"{name} is not one number")
        return float(values.item())

    def is_int8(self, name: str) -> bool:
        return name in self and self.entries[name].dtype == "<i1"

    def shape(self, name: str) -> tuple[int, ...]:
        return self.entries[name].shape if name in self else ()

    def __getitem__(self, name: str) -> NDArray[np.float32]:
        """Returns a tensor as float32; integers are divided by their scales."""
        values, dtype = self._values(name), self.entries[name].dtype
        if dtype in ("<i1", "<i2"):
            scales = self._scales(name)  # (out) or (1)
            return values.astype(np.float32) / scales.reshape(-1, *[1] * (values.ndim - 1))
        if dtype == "bfloat16":
            return (values.astype(np.uint32) << 16).view(np.float32)
        return values.astype(np.float32)

    def integers(self, name: str) -> Integers | None:
        if not self.is_int8(name):
            return None
        values = self._values(name)
        return values, np.float32(1) / np.broadcast_to(self._scales(name), len(values))

    def _scales(self, name: str) -> NDArray[np.float32]:
        """Returns the numbers by which weights were multiplied: one for each row, or one (1)."""
        variable = self.entries[name]
        name, shape = f"{variable.name}_scale", variable.shape
        scale = self.entries.get(name)
        if scale is None or scale.dtype != "<f4" or scale.shape not in ((), (1,), shape[:1]):
            raise self._damaged(f"{variable.name} has no scales for its {shape} integers")
        found: NDArray[np.float32] = self._values(name).reshape(-1)
        if not (np.isfinite(found) & (found > 0)).all():
            raise self._damaged(f"{variable.name} has scales that are not above 0")
        return found

    def _values(self, name: str) -> NDArray[Any]:
        variable = self.entries[name]
        if variable.offset is None:
            return np.zeros(variable.shape, variable.dtype)
        dtype = np.dtype("<u2" if variable.dtype == "bfloat16" else variable.dtype)
        values = np.frombuffer(self.data, dtype, math.prod(variable.shape), variable.offset)
        return values.reshape(variable.shape)
