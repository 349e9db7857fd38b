"""Fills the parameters of a model with the tensors of a file.

Name tables say which tensor fills which parameter.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from numpy.typing import NDArray
from torch import nn

from model.errors import WeightMismatchError


@dataclass(frozen=True, slots=True)
class Name:
    """One row of a name table.

    Attributes:
        parameter: Name in the model, with `{i}` for the layer's number, counted from 0.
        tensor: Name in the file, with `{i}` for the number that the file gives to this layer.
    """

    parameter: str
    tensor: str

    def expand(self, layers: int, first: int = 1) -> list[tuple[str, str]]:
        """Returns a pair (parameter, tensor) for each layer; one pair if the names have no `{i}`.

        Args:
            layers: Number of layers.
            first: Number of the first layer in the tensor names of the file.
        """
        if "{i}" not in self.parameter:
            return [(self.parameter, self.tensor)]
        return [
            (self.parameter.format(i=layer), self.tensor.format(i=layer + first))
            for layer in range(layers)
        ]


def fill(
    module: nn.Module,
    arrays: Mapping[str, NDArray[Any]],
    pairs: Sequence[tuple[str, str]],
    ignored: re.Pattern[str],
    name: str = "",
) -> None:
    """Fills every parameter with the array that `pairs` assigns to it.

    Every array must be in `pairs`, or `ignored` must match its name.

    Args:
        module: The module to fill; it may be on the meta device.
        arrays: Maps the name of each tensor of the file to its values.
        pairs: Name of each parameter, with the name of the tensor that fills it.
        ignored: Pattern of the names of tensors that this model does not need.
        name: Name of the file, for error messages.

    Raises:
        WeightMismatchError: A tensor is missing, belongs to no parameter or has the wrong shape; or
            a parameter is not in `pairs`.
    """
    parameters = dict(module.named_parameters())
    wanted = dict(pairs)
    missing = [t for t in wanted.values() if t not in arrays]
    missing += [p for p in parameters if p not in wanted]
    unexpected = [t for t in arrays if t not in wanted.values() and not ignored.search(t)]
    shapes = []
    for parameter, tensor in wanted.items():
        if tensor not in arrays:
            continue
        if parameter not in parameters:
            unexpected.append(f"{tensor} for {parameter}")
            continue
        array, place = arrays[tensor], parameters[parameter]
        if array.size != place.numel() or array.squeeze().shape != place.squeeze().shape:
            shapes.append(f"{tensor} {array.shape} for {parameter} {tuple(place.shape)}")
            continue
        owner, _, attribute = parameter.rpartition(".")
        values = torch.from_numpy(array).reshape(place.shape)
        setattr(module.get_submodule(owner), attribute, nn.Parameter(values, requires_grad=False))
    if missing or unexpected or shapes:
        raise WeightMismatchError(missing, unexpected, shapes, name)
