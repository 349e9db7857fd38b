"""Reads Marian models: those of Firefox and Bergamot, and OPUS-MT.

A model is a `.bin` file, or an `.npz` file of training. Both hold named float tensors and the
training options; `.bin` files may hold int8 tensors.

Source: marian-dev, src/common/binary.cpp (layout) and src/tensors/cpu/intgemm_interface.h
(int8 tensors). No code was copied. The layout was checked with files of real models.
"""

import math
import re
import struct
import zipfile
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from model.checkpoints.formats.files import (
    YAML_ERRORS,
    Integers,
    TensorFile,
    load_yaml,
    map_file,
    size_reasons,
    unsupported,
)
from model.checkpoints.weights import Checkpoint
from model.config import Activation, DecoderKind, ModelConfig, NormPosition
from model.errors import CheckpointFormatError, UnsupportedModelError
from model.regular_files import MAX_WEIGHT_BYTES, check_file

VERSION = 1
OPTIONS_ITEM = "special:model.yml"

FLOAT16 = 0x0402
FLOAT32 = 0x0404
INTGEMM8 = 0x4101

FLOATS: dict[int, np.dtype[np.floating[Any]]] = {FLOAT16: np.dtype("<f2"), FLOAT32: np.dtype("<f4")}
TYPES = {dtype: kind for kind, dtype in FLOATS.items()}
DAMAGE = (
    *(OSError, EOFError, ValueError, KeyError, RuntimeError, MemoryError),
    *(zipfile.BadZipFile, zlib.error),
)
"""Errors for a file that is missing or damaged, is not an archive, or has Python objects."""

MAX_RATIO = 20
"""Largest ratio of the unpacked size of an `.npz` file to its size."""

# Marian's fixed multipliers for the inputs of int8 products. They are not used, because each input
# row gets a scale of its own.
IGNORED = re.compile(r"_QuantMultA$")

DECODERS = {"rnn": DecoderKind.SSRU, "self-attention": DecoderKind.SELF_ATTENTION}
# Source: marian-dev, src/graph/expression_operators.cpp.
ACTIVATIONS = {"relu": Activation.RELU, "swish": Activation.SWISH, "gelu": Activation.GELU_SIGMOID}
# Keys are values of transformer-preprocess, -postprocess and -postprocess-top. The letter `d`
# (dropout) is removed from these values, because only training uses dropout.
NORMS: dict[tuple[str, ...], NormPosition] = {
    ("", "an", ""): NormPosition.POST,
    ("n", "a", "n"): NormPosition.PRE,
}

# Options that change the computation, with the implemented values. The first value is the default.
REQUIRED: dict[str, Sequence[Any]] = {
    "type": ["transformer"],
    "lemma-dim-emb": [0],
    "lemma-dependency": [""],
    "factors-combine": ["sum"],
    "input-types": [[]],
    "output-omit-bias": [False],
    "right-left": [False],
    "transformer-ffn-depth": [2],
    "transformer-no-projection": [False],
    "transformer-pool": [False],
    "transformer-postprocess-emb": ["", "d"],
    "transformer-tied-layers": [[]],
    "transformer-train-position-embeddings": [False],
    "transformer-depth-scaling": [False],
    "ulr": [False],
    "transformer-decoder-autoreg": [*DECODERS],
    "transformer-ffn-activation": [*ACTIVATIONS],
}

# Options that are sizes, with our names and Marian's defaults. None means that there is no default.
SIZES: dict[str, tuple[str, int | None]] = {
    "dim-emb": ("d_model", None),
    "transformer-dim-ffn": ("ffn_dim", 2048),
    "enc-depth": ("encoder_layers", None),
    "dec-depth": ("decoder_layers", None),
    "transformer-heads": ("num_heads", 8),
}

ATTENTION = {"query": "q", "key": "k", "value": "v", "out": "o"}
LAYER = {
    **{f"mixer.{ours}": f"self_{{W|b}}{theirs}" for ours, theirs in ATTENTION.items()},
    **{f"cross_attention.{ours}": f"context_{{W|b}}{theirs}" for ours, theirs in ATTENTION.items()},
    "mixer.update.weight": "rnn_W",
    "mixer.forget": "rnn_{W|b}f",
    "feed_forward.fc1": "ffn_{W|b}1",
    "feed_forward.fc2": "ffn_{W|b}2",
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
        self.entries, offset = {}, 0
        for name, array in arrays.items():
            kind = TYPES.get(array.dtype, 0)
            self.entries[name] = Item(name, kind, array.shape, offset, array.nbytes)
            offset += array.nbytes
        self.options_item = self.entries.pop(OPTIONS_ITEM, None)
        unknown = [name for name, item in self.entries.items() if not item.type]
        if unknown:
            reasons = [f"{name} has type {arrays[name].dtype}" for name in unknown]
            raise UnsupportedModelError(path.name, reasons)
        self.data = b"".join(array.tobytes() for array in arrays.values())


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


def read_checkpoint(
    file: MarianFile, max_length_factor: float, eos_id: int, unk_id: int
) -> Checkpoint:
    options = file.options()
    reasons = unsupported(options, REQUIRED)
    decoder = options.get("transformer-decoder-autoreg", "self-attention")
    if decoder == "rnn" and options.get("dec-cell") != "ssru":
        reasons.append(f"dec-cell is {options.get('dec-cell')!r}, supported: 'ssru'")
    parts = ("preprocess", "postprocess", "postprocess-top")
    norm = tuple(str(options.get(f"transformer-{part}", "")).replace("d", "") for part in parts)
    if norm not in NORMS:
        reasons.append(f"transformer-preprocess/postprocess/postprocess-top are {norm}")
    sizes: dict[str, Any] = {name: options.get(name, usual) for name, (_, usual) in SIZES.items()}
    vocabs = options.get("dim-vocabs")
    if not isinstance(vocabs, list) or len(vocabs) != 2:
        reasons.append(f"dim-vocabs is {vocabs!r}, supported: two sizes")
        vocabs = []
    named = {f"dim-vocabs[{side}]": size for side, size in enumerate(vocabs)}
    reasons += size_reasons(sizes, named, len(file.data))
    if reasons:
        raise UnsupportedModelError(file.path.name, reasons)
    is_shared = bool(options.get("tied-embeddings-all"))
    config = ModelConfig(
        **{ours: sizes[option] for option, (ours, _) in SIZES.items()},
        source_vocab_size=vocabs[0],
        target_vocab_size=vocabs[1],
        eos_id=eos_id,
        unk_id=unk_id,
        shared_embeddings=is_shared or bool(options.get("tied-embeddings-src")),
        tied_output=is_shared or bool(options.get("tied-embeddings")),
        decoder=DECODERS[decoder],
        norm=NORMS[norm],
        norms_keys=False,
        activation=ACTIVATIONS[options.get("transformer-ffn-activation", "swish")],
        max_length_factor=max_length_factor,
        alignment_layer=_alignment_layer(options, sizes["dec-depth"]),
    )
    integers = file.integers if file.is_quantized else None
    return Checkpoint(config, file.path.name, file, names_of(config), IGNORED, integers)


def _alignment_layer(options: dict[str, Any], decoder_layers: int) -> int | None:
    """Returns the decoder layer that the options name for guided alignment, counted from 0.

    Guided alignment trains head 0 of this layer to align words. Marian writes its default layer,
    `last`, even into files of models without such training, and usually not `guided-alignment`.

    Source: marian-dev, src/models/transformer.h: the decoder's `step` counts layers from 1, and
    `collectOneHead` takes head 0; src/models/encoder_decoder.cpp, `modelFeatures_`.
    """
    if options.get("guided-alignment") == "none":
        return None
    named = str(options.get("transformer-guided-alignment-layer"))
    if named == "last":
        return decoder_layers - 1
    layer = int(named) - 1 if named.isdecimal() else -1
    return layer if 0 <= layer < decoder_layers else None


def names_of(config: ModelConfig) -> dict[str, str]:
    is_pre = config.norm is NormPosition.PRE
    norm, cells = "_ln_{scale|bias}" + "_pre" * is_pre, "rnn" if is_pre else "rnn_ffn"
    names = {
        "encoder.embedding.weight": "Wemb" if config.shared_embeddings else "encoder_Wemb",
        "decoder.embedding.weight": "decoder_Wemb",
        "decoder.output_bias": "decoder_ff_logit_out_b",
        "decoder.untied_weight": "decoder_ff_logit_out_Wt",
    }
    for side in ("encoder", "decoder"):
        is_ssru = side == "decoder" and config.decoder is DecoderKind.SSRU
        layer = LAYER | {
            "mixer_residual.norm": (cells if is_ssru else "self_Wo") + norm,
            "cross_residual.norm": f"context_Wo{norm}",
            "feed_forward_residual.norm": f"ffn_ffn{norm}",
        }
        for ours, theirs in layer.items():
            names[f"{side}.layers.{{i}}.{ours}"] = f"{side}_l{{n}}_{theirs}"
        names[f"{side}.norm"] = f"{side}_top_ln_{{scale|bias}}"
    return names
