"""Loads the compiled native library with ctypes.

The library computes models in int8 on a CPU. Installing the package builds the library from the
files in `csrc`, once for each instruction set. The best build that the processor supports is used.
The library is optional. Without it, PyTorch computes the models. PyTorch is slower, and rounds
differently.
"""

import ctypes
import logging
import weakref
import zlib
from collections.abc import Iterable, Sequence
from ctypes import POINTER, Structure, c_float, c_int, c_int32, c_int64, c_uint32, c_void_p
from dataclasses import replace
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from model.config import (
    Activation,
    AttentionSpec,
    BlockSpec,
    LayerConfig,
    ModelConfig,
    NormPosition,
    NormSpec,
)
from model.precision import Precision, select_precision
from model.quantization.int8 import PANEL, AsymmetricInt8Linear, Int8Linear, shape_of

logger = logging.getLogger("regard.native")

LANES = 16  # floats in a vector of the native code, as in csrc/simd/vectors.h

INSTRUCTION_SETS = ("amx", "avx512vnni", "avx2", "neon")
"""Instruction sets, best first. The build for a set is the extension module `_<name>`."""


ACTIVATIONS = {
    Activation.RELU: 1,
    Activation.SWISH: 2,
    Activation.GELU: 3,
    Activation.GELU_TANH: 4,
    Activation.GELU_SIGMOID: 5,
}
"""Mirrors Activation in linear.h."""


def fields(*groups: tuple[Any, str]) -> list[tuple[str, Any]]:
    return [(name, kind) for kind, names in groups for name in names.split()]


# Each structure mirrors the one of its name in csrc; `ShortlistSpec` mirrors `Shortlist`.


class MatrixSpec(Structure):
    _fields_ = fields((c_void_p, "values scales bias"), (c_int32, "out in is_packed"))


class WeightList(Structure):
    _fields_ = [
        ("matrices", POINTER(MatrixSpec)),
        ("norms", POINTER(c_void_p)),
        *fields((c_int32, "num_matrices num_norms")),
    ]

    def __init__(self, matrices: Sequence[MatrixSpec], norms: Sequence[int | None]) -> None:
        super().__init__(
            (MatrixSpec * len(matrices))(*matrices),
            (c_void_p * len(norms))(*norms),
            len(matrices),
            len(norms),
        )


class Sizes(Structure):
    _fields_ = fields(
        (c_int32, "d_model heads ffn encoder_layers decoder_layers source_vocab target_vocab"),
        (c_int32, "decoder activation is_pre_norm norms_keys positions eos"),
        (c_int32, "recorded_layer recorded_head"),
        (c_float, "embedding_scale epsilon"),
    )


class Weights(Structure):
    _fields_ = fields(
        (WeightList, "layers"), (MatrixSpec, "source target output"), (c_void_p, "positions")
    )


class ShortlistSpec(Structure):
    _fields_ = fields((c_void_p, "offsets candidates"), (c_int32, "frequent is_shared"))


class TextSizes(Structure):
    _fields_ = fields(
        (c_int32, "d_model heads kv_heads head_dim ffn layers vocab positions position_offset"),
        (c_int32, "bias_length is_bias_shared"),
        (c_int32, "is_gated has_head_norms has_output_norms is_pre_norm activation"),
        (c_float, "epsilon embedding_scale scale"),
    )


class TextWeights(Structure):
    _fields_ = fields(
        (WeightList, "layers"),
        (c_void_p, "tokens positions type"),
        (POINTER(c_void_p), "biases rotations"),
    )


class Searches(Structure):
    _fields_ = fields(
        (c_int32, "count"),
        (c_void_p, "beams rows"),
        (c_int32, "steps"),
        (c_void_p, "tokens totals best_totals parents ids"),
    )


OUT_OF_MEMORY = -1
"""Status of a native call that could not allocate memory. guarded.h returns the same value."""

FUNCTIONS: dict[str, tuple[Any, list[Any]]] = {
    "is_supported": (c_int, []),
    "structures": (c_int, [c_void_p]),
    "model_new": (
        c_int,
        [POINTER(Sizes), POINTER(Weights), POINTER(ShortlistSpec), POINTER(c_void_p)],
    ),
    "model_bytes": (c_int64, [c_void_p]),
    "model_delete": (None, [c_void_p]),
    "batch_new": (c_int, [c_void_p, c_int, POINTER(c_void_p)]),
    "batch_delete": (None, [c_void_p]),
    "batch_enter": (c_int, [c_void_p, c_int, c_int, *[c_void_p] * 5]),
    "batch_decode": (c_int, [c_void_p, c_int, c_int, *[c_void_p] * 3]),
    "batch_search": (c_int, [c_void_p, POINTER(Searches)]),
    "batch_logits": (c_int, [c_void_p, c_int, *[c_void_p] * 2, c_int64]),
    "batch_hidden": (c_int, [c_void_p, c_int, *[c_void_p] * 2]),
    "batch_attention": (c_int, [c_void_p, c_int, c_int64, c_void_p]),
    "batch_copy": (c_int, [c_void_p, c_int, c_void_p, c_void_p]),
    "batch_leave": (c_int, [c_void_p, c_int]),
    "text_model_new": (c_int, [POINTER(TextSizes), POINTER(TextWeights), POINTER(c_void_p)]),
    "text_model_bytes": (c_int64, [c_void_p]),
    "text_model_delete": (None, [c_void_p]),
    "text_batch_new": (c_int, [c_void_p, POINTER(c_void_p)]),
    "text_batch_delete": (None, [c_void_p]),
    "text_batch_enter": (c_int, [c_void_p, c_int, *[c_void_p] * 2]),
    "text_batch_project": (c_int, [c_void_p, *[c_int] * 3]),
    "text_batch_attend": (c_int, [c_void_p, *[c_int] * 3]),
    "text_batch_feed_forward": (c_int, [c_void_p, *[c_int] * 3]),
    "text_batch_read": (c_int, [c_void_p, c_int, c_void_p]),
}


def check(status: int) -> None:
    if status == OUT_OF_MEMORY:
        raise MemoryError("the native code could not allocate memory")
    if status:
        raise RuntimeError("the native code refused its arguments, or an operation failed")


def address(array: NDArray[Any]) -> int:
    """Returns the address of a contiguous array; the caller must keep the array alive."""
    return int(array.ctypes.data)


class Library:
    def __init__(self, shared: ctypes.CDLL, name: str) -> None:
        self.name = name
        for function, (result, arguments) in FUNCTIONS.items():
            entry = getattr(shared, f"regard_{function}")
            entry.restype, entry.argtypes = result, arguments
            setattr(self, function, entry)

    def __getattr__(self, name: str) -> Any:
        """Tells type checkers that the constructor sets functions."""
        raise AttributeError(name)


def is_of_sources(shared: ctypes.CDLL, folder: Path) -> bool:
    """Returns whether a build was compiled from the sources in a folder.

    A build of other sources may have other functions or structures, and could read wrong memory.
    An installed package has no sources in the folder; the result is then True.
    """
    found = [path for path in folder.rglob("*") if path.suffix in (".cpp", ".h")]
    if not found:
        return True
    sources = getattr(shared, "regard_sources", None)
    if sources is None:
        return False
    sources.restype, sources.argtypes = c_uint32, []
    expected = zlib.crc32(b"".join(path.read_bytes() for path in sorted(found)))
    return bool(sources() == expected)


def load_libraries(folder: Path = Path(__file__).parent / "csrc") -> list[Library]:
    """Returns every build of these sources that this processor can run, best first."""
    found = []
    for name in INSTRUCTION_SETS:
        spec = find_spec(f"model.backends.native._{name}")
        if spec is None or spec.origin is None:
            continue
        shared = ctypes.CDLL(spec.origin)
        if not is_of_sources(shared, folder):
            logger.warning(
                "native build %s was compiled from other sources and is not used: run make install",
                name,
            )
            continue
        library = Library(shared, name)
        if library.is_supported():
            found.append(library)
    return found


LIBRARIES = load_libraries()


def is_supported(config: LayerConfig) -> bool:
    """Returns whether the native code supports this config, even if no build exists here."""
    if isinstance(config, ModelConfig):
        return config.has_sinusoids and all(has_block(spec, False) for spec in config.blocks)
    if not config.blocks:
        return False
    attention = config.attention
    # The halves of a head are rotated together.
    turns = attention.rope is None or attention.head_dim % (2 * LANES) == 0
    return turns and all(has_block(spec, True) for spec in {*config.blocks})


def has_block(spec: BlockSpec, is_text: bool) -> bool:
    mixer = spec.mixer or spec.cross
    assert mixer is not None
    widths = [heads * mixer.head_dim for heads in (mixer.heads, mixer.kv_heads)]
    is_wide = all(width % PANEL == 0 for width in (spec.d_model, spec.ffn_dim, *widths))
    if is_text:
        is_right = spec.norms_keys and mixer.qk_norm in (None, replace(spec.norm, has_bias=False))
        # These options are left out of the comparison below.
        mixer = replace(mixer, kv_heads=mixer.heads, scale=None, qk_norm=None, has_bias=True)
        mixer = replace(mixer, rope=None, buckets=0, has_alibi=False, window=None)
    else:
        usual = replace(spec, has_gate=False, ffn_biases=(True, True), norms_first=True)
        is_usual = spec == replace(usual, norm=NormSpec(spec.norm.eps))
        is_right = is_usual and spec.norm_position is not NormPosition.BOTH
        is_right = is_right and widths[0] == spec.d_model
    plain = AttentionSpec(mixer.heads, mixer.heads, mixer.head_dim, is_causal=mixer.is_causal)
    is_plain = mixer == plain and spec.activation in ACTIVATIONS
    return is_plain and is_right and is_wide and mixer.head_dim % LANES == 0


def can_serve(config: LayerConfig) -> bool:
    return bool(LIBRARIES) and is_supported(config)


def select_native_precision(config: LayerConfig, dtype: str, device: torch.device) -> Precision:
    """Selects a precision; warns if a usable build of the native code would compute the model."""
    precision = select_precision(dtype, device, is_int8=can_serve(config))
    if is_supported(config) and not LIBRARIES:
        if select_precision(dtype, device, is_int8=True) is Precision.INT8:
            log_missing_build()
    return precision


@cache
def log_missing_build() -> None:
    # Speeds were measured with the built-in en-pt model at 32 rows on one AVX2 core. For the share
    # of differing translations, see docs/decisions.md, "Int8 for translation".
    logger.warning(
        "no usable build of the native code, so PyTorch computes instead: about 4 times slower in "
        "float32 (dtype auto) and 5 times slower in int8. About one translation in six differs "
        "from that of native code. Install g++ and run make install; native code needs an x86-64 "
        "processor with AVX2, FMA and F16C, or an ARM64 processor with the dot product."
    )


def int32(values: Any) -> NDArray[np.int32]:
    return np.ascontiguousarray(values, dtype=np.int32)


class NativeModel:
    """A native model that reads the weights of a PyTorch model in place.

    A `library` of None stands for the best build that this processor can run.
    """

    def __init__(self, library: Library | None = None) -> None:
        self.library = library or LIBRARIES[0]
        self.kept: list[NDArray[np.generic]] = []  # arrays that the native model reads
        self.handle = c_void_p()
        self.native_bytes = 0

    def keep(self, tensor: torch.Tensor) -> int:
        array = tensor.detach().contiguous().numpy()
        self.kept.append(array)
        return address(array)

    def matrix(
        self,
        values: torch.Tensor,
        shape: Sequence[int],
        scales: torch.Tensor,
        bias: torch.Tensor | None,
    ) -> MatrixSpec:
        places = self.keep(values), self.keep(scales), None if bias is None else self.keep(bias)
        return MatrixSpec(*places, *shape, values.dim() == 4)

    def linears_and_norms(self, modules: Iterable[nn.Module]) -> WeightList:
        # A layer without a norm has an `nn.Identity` in its place.
        matrices: list[MatrixSpec] = []
        norms: list[int | None] = []
        for module in modules:
            if isinstance(module, (Int8Linear, AsymmetricInt8Linear)):
                packed = module.pack()
                matrices.append(self.matrix(packed, shape_of(packed), module.scales, module.bias))
            elif isinstance(module, nn.LayerNorm):
                bias = torch.zeros_like(module.weight) if module.bias is None else module.bias
                norms += [self.keep(module.weight), self.keep(bias)]
            elif isinstance(module, nn.RMSNorm):
                norms += [self.keep(module.weight), None]
            elif isinstance(module, nn.Identity):
                norms += [None, None]
        return WeightList(matrices, norms)

    def create(self, kind: str, *arguments: Structure) -> None:
        """Creates the native model, which is deleted together with this object."""
        new, delete = (getattr(self.library, f"{kind}_{verb}") for verb in ("new", "delete"))
        check(new(*arguments, self.handle))
        weakref.finalize(self, delete, self.handle)
        self.native_bytes = getattr(self.library, f"{kind}_bytes")(self.handle)


class NativeBatch:
    """A native batch, which reads its model until it is deleted together with this object."""

    def __init__(self, model: NativeModel, kind: str, *sizes: int) -> None:
        self.model, self.handle = model, c_void_p()
        new = getattr(model.library, f"{kind}_new")
        check(new(model.handle, *sizes, self.handle))
        weakref.finalize(self, getattr(model.library, f"{kind}_delete"), self.handle)
