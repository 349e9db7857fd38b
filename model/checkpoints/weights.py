"""Fills models with the tensors that a name table assigns to their parameters.

A name table maps parameters to tensors, or modules with a weight or a bias to modules. For the
number of a layer, both have `{i}`, which counts from 0; in names of tensors, `{n}` counts from 1.
`ffn_{W|b}1` is `ffn_W1` for the weight of a module, and `ffn_b1` for its bias.
`tensor[1/3]` is the second of three equal parts of a tensor, and `tensor+1` is the tensor plus 1.

Translation models are filled in float32 or int8. The sample sentences show how much int8 changes
the results of a model.
"""

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
from model.architectures.stack import EncoderDecoder
from model.checkpoints.families.encoder_family import Family
from model.checkpoints.formats.files import Arrays, Integers
from model.config import ModelConfig
from model.errors import WeightMismatchError
from model.precision import Precision
from model.quantization.int8 import Int8Linear, QuantizedMatrix, quantize_matrix

# Maps the names of a layer norm's two vectors in BERT's oldest files to their names in newer files.
OLD_NORMS = {"LayerNorm.gamma": "LayerNorm.weight", "LayerNorm.beta": "LayerNorm.bias"}

KINDS = re.compile(r"\{(?P<weight>\w+)\|(?P<bias>\w+)\}")
LAYER = re.compile(r"(?<=layers\.)\d+")
SOURCE = re.compile(r"(?P<tensor>[^\[+]+)(\[(?P<part>\d)/(?P<parts>\d)\])?(?P<one>\+1)?")

HUGE_PAGE, LINE = 2 << 20, 64
UNUSED = np.empty(0)  # stands for a tensor that is not read


@dataclass(frozen=True, slots=True)
class Source:
    """The name of a tensor in a file, and the changes that make a parameter of the tensor."""

    tensor: str
    part: int = 0
    parts: int = 1
    adds_one: bool = False

    def take(self, array: NDArray[Any]) -> NDArray[Any]:
        """Returns the whole tensor if it has no equal parts."""
        if self.parts > 1 and array.ndim and len(array) % self.parts == 0:
            array = np.split(np.asarray(array), self.parts)[self.part]
        return array + 1 if self.adds_one else array


def sources_of(module: nn.Module, names: Mapping[str, str]) -> dict[str, Source]:
    """Returns the source of each parameter of a module that is in a name table."""
    sources = {}
    for parameter, _ in module.named_parameters():
        layer = LAYER.search(parameter)
        number = int(layer[0]) if layer else 0
        row = LAYER.sub("{i}", parameter)
        owner, _, kind = row.rpartition(".")
        tensor = names.get(row)
        if tensor is None and owner in names:
            tensor = names[owner]
            if kinds := KINDS.search(tensor):
                tensor = tensor.replace(kinds[0], kinds[kind])
            else:  # the kind comes before the changes
                tensor = re.sub(r"[\[+]|$", rf".{kind}\g<0>", tensor, count=1)
        found = SOURCE.fullmatch((tensor or "").format(i=number, n=number + 1))
        if found is not None:
            part, parts = int(found["part"] or 0), int(found["parts"] or 1)
            sources[parameter] = Source(found["tensor"], part, parts, found["one"] is not None)
    return sources


def fill(
    module: nn.Module,
    arrays: Mapping[str, NDArray[Any]],
    names: Mapping[str, str],
    ignored: re.Pattern[str],
    name: str = "",
) -> None:
    """Fills every parameter of a module, which may be on the meta device, from a name table.

    `ignored` matches the names of arrays that the module does not need. Arrays or parameters
    without a partner, or of other shapes, raise a WeightMismatchError that lists all of them.
    """
    parameters, sources = dict(module.named_parameters()), sources_of(module, names)
    tensors = dict.fromkeys(source.tensor for source in sources.values())
    missing = [t for t in tensors if t not in arrays]
    missing += [p for p in parameters if p not in sources]
    unexpected = [t for t in arrays if t not in tensors and not ignored.search(t)]
    shapes = []
    for parameter, source in sources.items():
        if source.tensor not in arrays:
            continue
        array, place = source.take(arrays[source.tensor]), parameters[parameter]
        if array.size != place.numel() or array.squeeze().shape != place.squeeze().shape:
            shapes.append(f"{source.tensor} {array.shape} for {parameter} {tuple(place.shape)}")
            continue
        owner, _, attribute = parameter.rpartition(".")
        values = torch.from_numpy(array).reshape(place.shape)
        setattr(module.get_submodule(owner), attribute, nn.Parameter(values, requires_grad=False))
    if missing or unexpected or shapes:
        raise WeightMismatchError(missing, unexpected, shapes, name)


def normal_names(arrays: Arrays, family: Family) -> dict[str, NDArray[np.float32]]:
    """Returns the tensors under the names of the family's table."""
    normal: dict[str, NDArray[np.float32]] = {}
    for tensor, array in arrays.items():
        short = tensor.removeprefix(family.prefix)
        for old, new in OLD_NORMS.items():
            short = short.removesuffix(old) + new if short.endswith(old) else short
        normal[short] = array
    return normal


@dataclass(frozen=True)
class Checkpoint:
    """The config and the tensors of a translation model on disk."""

    config: ModelConfig
    name: str  # of the file of weights, for messages
    tensors: Arrays
    names: Mapping[str, str]  # maps parameters to tensors, a name table
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
    sources = sources_of(model, found.names)
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
    fill(model, arrays, found.names, found.ignored, found.name)
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
    memory, alignment = np.empty(array.nbytes + LINE, np.uint8), LINE
    if array.nbytes >= HUGE_PAGE and hasattr(mmap, "MADV_HUGEPAGE"):
        # By default, the kernel gives huge pages to private memory only. One more page leaves room
        # for the alignment; a page that is never written takes no memory.
        private = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
        mapped = mmap.mmap(-1, array.nbytes + HUGE_PAGE, private)
        with suppress(OSError):  # a kernel without huge pages refuses the advice
            mapped.madvise(mmap.MADV_HUGEPAGE)
        memory, alignment = np.frombuffer(mapped, np.uint8), HUGE_PAGE
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
