"""Reads the folders of CTranslate2 and the packages of Argos: languages, vocabularies, tensors.

Does not import torch.

Source: OpenNMT/CTranslate2, python/ctranslate2/specs/model_spec.py (`_serialize`, `_quantize`),
src/models/model.cc (older versions), src/models/sequence_to_sequence.cc (vocabularies and options);
argosopentech/argos-translate, argostranslate/package.py (packages). No code was copied.
"""

import math
import re
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from model.checkpoints.families import translation_folder
from model.checkpoints.families.hf_config import CONFIG, LAYER_NORM_EPS
from model.checkpoints.folders import title_of
from model.checkpoints.formats import files
from model.checkpoints.formats.files import Integers, TensorFile, map_file
from model.checkpoints.languages import LanguageTokens, Translates, pair_of
from model.errors import CheckpointFormatError, UnsupportedModelError

WEIGHTS = "model.bin"
METADATA = "metadata.json"
SPEC = "TransformerSpec"

SUFFIXES = (".json", ".txt")

# Matches the tokens of languages of M2M100 and SMaLL-100, and of NLLB-200.
LANGUAGE = re.compile(r"__[a-z]{2,3}__|[a-z]{3}_[A-Z][a-z]{3}")
HIDDEN = re.compile(rf"{LANGUAGE.pattern}|madeupword\d+|<mask>")

ARGOS_CODES = {"zt": "zh_Hant", "pb": "pt_BR"}
"""Codes of Argos that are no language codes."""

# Options of `config.json`, with the defaults of files before version 6, whose flags have other
# names: `with_source_eos`.
START, END = "<s>", translation_folder.EOS
SUPPORTED: dict[str, tuple[Any, ...]] = {
    "unk_token": (translation_folder.UNK,),
    "eos_token": (END,),
    "add_source_bos": (False,),
    "multi_query_attention": (False,),
    "quantization_type": (None,),
}

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


def is_converted(folder: Path) -> bool:
    return (folder / WEIGHTS).is_file() and any(
        path.suffix in SUFFIXES for path in folder.glob("*vocabulary.*")
    )


def is_package(folder: Path) -> bool:
    """Returns whether a folder of weights is `model/` of an Argos package."""
    return (folder.parent / METADATA).is_file()


def find_parts(folder: Path) -> list[Path]:
    """Returns weights, source pieces, target pieces, source vocabulary and target vocabulary."""
    vocabularies = [_vocabulary(folder, side) for side in ("source", "target")]
    places = (folder, folder.parent) if is_package(folder) else (folder,)
    parts = [sorted([*place.glob("*.spm"), *place.glob("*.model")]) for place in places]
    found = [path for part in parts for path in part if path.name != "bpe.model"]
    named = {path.name: path for path in found}
    ends = translation_folder.SOURCE_PIECES, translation_folder.TARGET_PIECES
    pieces = [named[end] for end in ends] if set(ends) <= named.keys() else found * 2
    if len(pieces) != 2:
        reason = f"it has {len(found)} SentencePiece files (*.spm or *.model), and not one, or two"
        if any((place / "bpe.model").is_file() for place in places):
            reason = (
                "its text is split by bpe.model, and only SentencePiece is supported; "
                "use a newer package of the pair, or its OPUS-MT model"
            )
        raise CheckpointFormatError(f"{folder} cannot be served: {reason}")
    return [folder / WEIGHTS, *pieces, *vocabularies]


def _vocabulary(folder: Path, side: str) -> Path:
    names = [f"{each}_vocabulary{end}" for each in ("shared", side) for end in SUFFIXES]
    paths = [folder / name for name in names if (folder / name).is_file()]
    if not paths:
        raise CheckpointFormatError(f"{folder} is not a complete model: it has no {names[0]}")
    return paths[0]


def translates(folder: Path, ids: Path) -> Translates:
    vocabulary = translation_folder.read_vocabulary(ids)
    if is_package(folder):
        path = folder.parent / METADATA
        options = files.read_options(path)
        codes = [str(options.get(f"{end}_code")) for end in ("from", "to")]
        pair = pair_of(*(ARGOS_CODES.get(code, code) for code in codes))
        token = options.get("target_prefix") or ""  # first token of targets
        if pair is None or (token and token not in vocabulary):
            names = {name: options.get(name) for name in ("from_code", "to_code", "target_prefix")}
            raise UnsupportedModelError(str(path), [f"{names} are no languages of the model"])
        tokens = LanguageTokens({pair[0]: ""}, {pair[1]: token}, begins_target=True)
        return pair, tokens if token else None
    pieces = [piece for piece in vocabulary if LANGUAGE.fullmatch(piece)]
    if pieces:
        is_small = translation_folder.SMALL_100.search(title_of(folder)) is not None
        return translation_folder.between(folder, pieces, begins_target=not is_small)
    return translation_folder.translates(folder, ids)


def read_options(file: CTranslate2File) -> dict[str, Any]:
    """Returns the options of `config.json`; before binary version 6, those in the weights."""
    path = file.path.parent / CONFIG
    if not file.spec.startswith(SPEC.removesuffix("Spec")) or "Decoder" in file.spec:
        reason = f"its specification is {file.spec!r}, supported: {SPEC!r}, a translation model"
        raise UnsupportedModelError(str(file.path), [reason])
    found: dict[str, Any] = {
        "add_source_eos": file.scalar("with_source_eos", 0) != 0,
        "add_source_bos": file.scalar("with_source_bos", 0) != 0,
        "decoder_start_token": START if file.scalar("with_target_bos", 1) else END,
        **files.read_options_if_there(path),
    }
    reasons = files.unsupported(found, SUPPORTED)
    eps = found.get("layer_norm_epsilon") or LAYER_NORM_EPS
    if not isinstance(eps, float) or not 0 < eps < 1:
        reasons.append(f"layer_norm_epsilon is {eps!r}")
    if reasons:
        raise UnsupportedModelError(str(path), reasons)
    return {**found, "layer_norm_epsilon": eps}


def ends_sources(weights: Path) -> bool:
    """Returns whether EOS ends a source. OpenNMT-py, with `<s>` before targets, trains without."""
    options = read_options(CTranslate2File(weights))
    return options["decoder_start_token"] != START or bool(options["add_source_eos"])
