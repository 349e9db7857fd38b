"""Fills translation models with weights, in float32 or int8, and has samples to compare both."""

import mmap
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from model.architectures.embedding import Embedding
from model.architectures.seq2seq import EncoderDecoder
from model.checkpoints.formats.files import Arrays, Integers
from model.checkpoints.names import Source, fill, pairs_of
from model.config import ModelConfig
from model.precision import Precision
from model.quantization.int8 import Int8Linear, QuantizedMatrix, quantize_matrix

HUGE_PAGE, LINE = 2 << 20, 64
UNUSED = np.empty(0)  # stands for a tensor that is not read


@dataclass(frozen=True)
class Checkpoint:
    """The config and the tensors of a translation model on disk."""

    config: ModelConfig
    name: str  # of the file of weights, for messages
    tensors: Arrays
    names: Mapping[str, str]  # maps parameters to tensors, see `model.checkpoints.names`
    ignored: re.Pattern[str]  # matches the tensors that a model does not need
    # Returns the int8 values of a tensor; None if the file has no int8 weights.
    integers: Callable[[str], Integers | None] | None = None

    def quantized(self, tensor: str) -> QuantizedMatrix:
        """Returns a matrix (out, in) or table (V, D); floats are rounded."""
        integers = self.integers(tensor) if self.integers else None
        if integers is None:
            return quantize_matrix(self.tensors[tensor])
        values, steps = integers
        return QuantizedMatrix(copy_of(values), steps)


def load_weights(found: Checkpoint, is_quantized: bool = False) -> EncoderDecoder:
    """Returns a model on the CPU, in float32, or with int8 matrices."""
    config = found.config
    with torch.device("meta"):  # the parameters take no memory; the file's tensors replace them
        model = EncoderDecoder(config)
    pairs = pairs_of(model, found.names)
    sources = {ours: Source.of(theirs) for ours, theirs in pairs}
    sizes = {name: parameter.dim() for name, parameter in model.named_parameters()}
    rounded = {ours: each for ours, each in sources.items() if is_quantized and sizes[ours] == 2}
    used, int8 = ({each.tensor for each in those.values()} for those in (sources, rounded))
    arrays: dict[str, NDArray[Any]] = {}
    matrices: dict[str, QuantizedMatrix] = {}
    for name in found.tensors:
        if name in int8:
            matrices[name] = found.quantized(name)
            arrays[name] = matrices[name].values
        else:
            arrays[name] = found.tensors[name] if name in used else UNUSED
    fill(model, arrays, pairs, found.ignored, found.name)
    model.share_embeddings()
    if config.scales_output:
        norm = model.decoder.norm
        norm.weight = nn.Parameter(norm.weight * config.d_model**-0.5, requires_grad=False)
    if is_quantized:
        quantize(model, {ours: _take(matrices, each) for ours, each in rounded.items()})
    return model.eval()


def _take(matrices: Mapping[str, QuantizedMatrix], source: Source) -> QuantizedMatrix:
    whole = matrices[source.tensor]
    return QuantizedMatrix(source.take(whole.values), source.take(whole.scales))


def copy_of(array: NDArray[Any]) -> NDArray[Any]:
    """Returns a contiguous copy that begins at a cache line.

    A copy of 2 MiB or more lies in huge pages, if the system has them: random reads are faster.
    """
    if array.nbytes < HUGE_PAGE or not hasattr(mmap, "MADV_HUGEPAGE"):
        return _copy_to(np.empty(array.nbytes + LINE, np.uint8), LINE, array)
    # By default, the kernel gives huge pages to private memory only. One more page leaves room
    # for the alignment; a page that is never written takes no memory.
    private = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
    memory = mmap.mmap(-1, array.nbytes + HUGE_PAGE, private)
    with suppress(OSError):  # a kernel without huge pages refuses the advice
        memory.madvise(mmap.MADV_HUGEPAGE)
    return _copy_to(np.frombuffer(memory, np.uint8), HUGE_PAGE, array)


def _copy_to(memory: NDArray[np.uint8], alignment: int, array: NDArray[Any]) -> NDArray[Any]:
    start = -memory.ctypes.data % alignment
    copy = memory[start : start + array.nbytes].view(array.dtype).reshape(array.shape)
    copy[...] = array
    return copy


def quantize(model: EncoderDecoder, matrices: Mapping[str, QuantizedMatrix]) -> None:
    """Replaces matrices by int8 matrices, given by the names of their parameters."""
    for parameter, matrix in matrices.items():
        path, _, kind = parameter.rpartition(".")
        module = model.get_submodule(path)
        if isinstance(module, nn.Linear):
            owner, _, name = path.rpartition(".")
            setattr(model.get_submodule(owner), name, Int8Linear(matrix, module.bias))
        elif isinstance(module, Embedding) and kind == "weight":  # a table of positions stays
            module.quantize(matrix)
    shared = matrices["encoder.embedding.weight"]
    if model.config.shared_embeddings and model.config.max_positions:
        model.decoder.embedding.quantize(shared)
    tied = matrices.get("decoder.embedding.weight", shared)
    model.decoder.quantize(matrices.get("decoder.untied_weight", tied))
    model.precision = Precision.INT8


def quantize_floats(model: EncoderDecoder) -> None:
    """Rounds the matrices of a filled model to int8. The model must be in float32 on the CPU."""
    parameters = [(name, each.detach()) for name, each in model.named_parameters()]
    quantize(
        model, {name: quantize_matrix(each.numpy()) for name, each in parameters if each.dim() == 2}
    )


SAMPLES = {
    "en": (
        "The library opens at nine, but on Sundays it stays closed.",
        "She had never seen so many birds on the lake before.",
        "Please send us the signed form by the end of the month.",
        "The engineers found out why the bridge moved in the wind.",
    ),
    "pt": (
        "A biblioteca abre às nove, mas aos domingos fica fechada.",
        "Ela nunca tinha visto tantos pássaros no lago.",
    ),
    "es": (
        "La biblioteca abre a las nueve, pero los domingos está cerrada.",
        "Nunca había visto tantos pájaros en el lago.",
    ),
    "fr": (
        "La bibliothèque ouvre à neuf heures, mais elle est fermée le dimanche.",
        "Elle n'avait jamais vu autant d'oiseaux sur le lac.",
    ),
    "de": (
        "Die Bibliothek öffnet um neun, aber sonntags bleibt sie geschlossen.",
        "Sie hatte noch nie so viele Vögel auf dem See gesehen.",
    ),
    "it": ("La biblioteca apre alle nove, ma la domenica resta chiusa.",),
    "ru": ("Библиотека открывается в девять, но по воскресеньям она закрыта.",),
    "zh": ("图书馆九点开门，但是星期天不开门。",),
}
"""Sample sentences. A translation model gets those of a source language, or else all."""

DEGENERATE = ("word " * 100, "....", "1 2 3 4 5 6 7 8 9", "a" * 30, "!!!! ???? ....", "x")
"""Texts in which most tokens attend to a few tokens, whose rounding errors do not cancel out."""


def all_samples() -> list[str]:
    return [text for each in SAMPLES.values() for text in each]
