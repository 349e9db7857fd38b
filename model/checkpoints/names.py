"""Fills the parameters of a model with the tensors that a name table assigns to them.

A name table maps parameters to tensors, or modules with a weight or a bias to modules. For the
number of a layer, both have `{i}`, which counts from 0; in names of tensors, `{n}` counts from 1.
`ffn_{W|b}1` is `ffn_W1` for the weight of a module, and `ffn_b1` for its bias.
`tensor[1/3]` is the second of three equal parts of a tensor, and `tensor+1` is the tensor plus 1.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from model.checkpoints.families.encoder_family import Family
from model.checkpoints.formats.files import Arrays
from model.errors import WeightMismatchError

# Maps the names of a layer norm's two vectors in BERT's oldest files to their names in newer files.
OLD_NORMS = {"LayerNorm.gamma": "LayerNorm.weight", "LayerNorm.beta": "LayerNorm.bias"}

KINDS = re.compile(r"\{(?P<weight>\w+)\|(?P<bias>\w+)\}")
LAYER = re.compile(r"(?<=layers\.)\d+")
SOURCE = re.compile(r"(?P<tensor>[^\[+]+)(\[(?P<part>\d)/(?P<parts>\d)\])?(?P<one>\+1)?")


@dataclass(frozen=True, slots=True)
class Source:
    """The name of a tensor in a file, and the changes that make a parameter of the tensor."""

    tensor: str
    part: int = 0
    parts: int = 1
    adds_one: bool = False

    @classmethod
    def of(cls, text: str) -> "Source":
        found = SOURCE.fullmatch(text)
        assert found is not None
        part, parts = int(found["part"] or 0), int(found["parts"] or 1)
        return cls(found["tensor"], part, parts, found["one"] is not None)

    def take(self, array: NDArray[Any]) -> NDArray[Any]:
        """Returns the whole tensor if it has no equal parts."""
        if self.parts > 1 and array.ndim and len(array) % self.parts == 0:
            array = np.split(np.asarray(array), self.parts)[self.part]
        return array + 1 if self.adds_one else array


def pairs_of(module: nn.Module, names: Mapping[str, str]) -> list[tuple[str, str]]:
    """Returns (parameter, tensor) for each parameter of a module that is in a name table."""
    pairs = []
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
        if tensor is not None:
            pairs.append((parameter, tensor.format(i=number, n=number + 1)))
    return pairs


def fill(
    module: nn.Module,
    arrays: Mapping[str, NDArray[Any]],
    pairs: Sequence[tuple[str, str]],
    ignored: re.Pattern[str],
    name: str = "",
) -> None:
    """Fills every parameter of a module, which may be on the meta device, as `pairs` says.

    `ignored` matches the names of arrays that the module does not need. Arrays or parameters
    without a partner, or of other shapes, raise a WeightMismatchError that lists all of them.
    """
    parameters = dict(module.named_parameters())
    wanted = {parameter: Source.of(text) for parameter, text in pairs}
    tensors = dict.fromkeys(source.tensor for source in wanted.values())
    missing = [t for t in tensors if t not in arrays]
    missing += [p for p in parameters if p not in wanted]
    unexpected = [t for t in arrays if t not in tensors and not ignored.search(t)]
    shapes = []
    for parameter, source in wanted.items():
        tensor = source.tensor
        if tensor not in arrays:
            continue
        if parameter not in parameters:
            unexpected.append(f"{tensor} for {parameter}")
            continue
        array, place = source.take(arrays[tensor]), parameters[parameter]
        if array.size != place.numel() or array.squeeze().shape != place.squeeze().shape:
            shapes.append(f"{tensor} {array.shape} for {parameter} {tuple(place.shape)}")
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
