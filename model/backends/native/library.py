"""Loads the compiled native library with ctypes.

The library computes models in int8 on a CPU. Installing the package builds the library from the
files in `csrc`, once for each instruction set. The best build that the processor supports is used.
The library is optional. Without it, PyTorch computes the models. PyTorch is slower, and rounds
differently.
"""

import ctypes
import logging
import zlib
from collections.abc import Sequence
from ctypes import POINTER, Structure, c_float, c_int, c_int32, c_int64, c_uint32, c_void_p
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from model.config import Activation
from model.precision import Precision, select_precision

logger = logging.getLogger("regard.native")

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


class MatrixSpec(Structure):
    """Mirrors MatrixSpec in matrix.h."""

    _fields_ = [
        ("values", c_void_p),
        ("scales", c_void_p),
        ("bias", c_void_p),
        ("out", c_int32),
        ("in", c_int32),
        ("is_packed", c_int32),
    ]


class WeightList(Structure):
    """Mirrors WeightList in weights.h."""

    _fields_ = [
        ("matrices", POINTER(MatrixSpec)),
        ("norms", POINTER(c_void_p)),
        ("num_matrices", c_int32),
        ("num_norms", c_int32),
    ]

    def __init__(self, matrices: Sequence[MatrixSpec], norms: Sequence[int]) -> None:
        super().__init__(
            (MatrixSpec * len(matrices))(*matrices),
            (c_void_p * len(norms))(*norms),
            len(matrices),
            len(norms),
        )


class Sizes(Structure):
    """Mirrors Sizes in transformer.h."""

    _fields_ = [
        ("d_model", c_int32),
        ("heads", c_int32),
        ("ffn", c_int32),
        ("encoder_layers", c_int32),
        ("decoder_layers", c_int32),
        ("source_vocab", c_int32),
        ("target_vocab", c_int32),
        ("decoder", c_int32),
        ("activation", c_int32),
        ("is_pre_norm", c_int32),
        ("norms_keys", c_int32),
        ("positions", c_int32),
        ("eos", c_int32),
        ("recorded_layer", c_int32),
        ("recorded_head", c_int32),
        ("embedding_scale", c_float),
        ("epsilon", c_float),
    ]


class Weights(Structure):
    """Mirrors Weights in transformer.h."""

    _fields_ = [
        ("layers", WeightList),
        ("source", MatrixSpec),
        ("target", MatrixSpec),
        ("output", MatrixSpec),
        ("positions", c_void_p),
    ]


class ShortlistSpec(Structure):
    """Mirrors Shortlist in output.h."""

    _fields_ = [
        ("offsets", c_void_p),
        ("candidates", c_void_p),
        ("frequent", c_int32),
        ("is_shared", c_int32),
    ]


class TextSizes(Structure):
    """Mirrors TextSizes in text_encoder.h."""

    _fields_ = [
        ("d_model", c_int32),
        ("heads", c_int32),
        ("ffn", c_int32),
        ("layers", c_int32),
        ("vocab", c_int32),
        ("positions", c_int32),
        ("position_offset", c_int32),
        ("relative_length", c_int32),
        ("activation", c_int32),
        ("epsilon", c_float),
    ]


class TextWeights(Structure):
    """Mirrors TextWeights in text_encoder.h."""

    _fields_ = [
        ("layers", WeightList),
        ("tokens", c_void_p),
        ("positions", c_void_p),
        ("type", c_void_p),
        ("relative", c_void_p),
    ]


class Searches(Structure):
    """Mirrors Searches in beams.h."""

    _fields_ = [
        ("count", c_int32),
        ("beams", c_void_p),
        ("rows", c_void_p),
        ("steps", c_int32),
        ("tokens", c_void_p),
        ("totals", c_void_p),
        ("best_totals", c_void_p),
        ("parents", c_void_p),
        ("ids", c_void_p),
    ]


STRUCTURES = (
    *(MatrixSpec, WeightList, Sizes, Weights, ShortlistSpec),
    *(TextSizes, TextWeights, Searches),
)
"""The structures of all calls, in the order of regard_structures in batch.cpp."""

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
    """Raises an error for a failed call of the native code."""
    if status == OUT_OF_MEMORY:
        raise MemoryError("the native code could not allocate memory")
    if status:
        raise RuntimeError("the native code refused its arguments, or an operation failed")


def address(array: NDArray[Any]) -> int:
    """Returns the address of a contiguous array; the caller must keep the array alive."""
    return int(array.ctypes.data)


class Library:
    """One build of the library."""

    def __init__(self, shared: ctypes.CDLL, name: str) -> None:
        self.name = name
        for function, (result, arguments) in FUNCTIONS.items():
            entry = getattr(shared, f"regard_{function}")
            entry.restype, entry.argtypes = result, arguments
            setattr(self, function, entry)

    def has_structures(self) -> bool:
        found = np.zeros(2 * len(STRUCTURES), np.int32)
        count: int = self.structures(address(found))
        sizes: list[int] = found[:count].tolist()
        return sizes == [ctypes.sizeof(each) for each in STRUCTURES]

    def __getattr__(self, name: str) -> Any:
        """Raises AttributeError.

        The method exists for type checkers, which do not see that the constructor sets functions.
        """
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
    """Returns every build that matches its sources and that this processor can run, best first."""
    found = []
    for name in INSTRUCTION_SETS:
        spec = find_spec(f"model.backends.native._{name}")
        if spec is None or spec.origin is None:
            continue
        shared = ctypes.CDLL(spec.origin)
        if not (is_of_sources(shared, folder) and Library(shared, name).has_structures()):
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


def warn_without_build(dtype: str, device: torch.device) -> None:
    """Warns if native int8 code would compute a model, but no build of that code is usable."""
    if not LIBRARIES and select_precision(dtype, device, is_int8=True) is Precision.INT8:
        log_missing_build()


@cache
def log_missing_build() -> None:
    """Logs, once per process, how slow PyTorch is, and how to install the native code.

    Speeds were measured with the built-in en-pt model at 32 rows on one AVX2 core. The share of
    differing translations was measured between float32 and int8 (docs/decisions.md, "Int8 for
    translation").
    """
    logger.warning(
        "no usable build of the native code, so PyTorch computes instead: about 3 times slower in "
        "float32 (dtype auto) and 30 times slower in int8. About one translation in six differs "
        "from that of native code. Install g++ and run make install; native code needs an x86-64 "
        "processor with AVX2, FMA and F16C, or an ARM64 processor with the dot product."
    )


def int32(values: Any) -> NDArray[np.int32]:
    return np.ascontiguousarray(values, dtype=np.int32)
