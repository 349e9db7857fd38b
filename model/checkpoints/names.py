"""Fills the parameters of a model with the tensors that a name table assigns to them."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from model.architectures.text_encoder import TextEncoder
from model.checkpoints.families.text_encoders import Family
from model.checkpoints.formats.tensors import Arrays
from model.errors import WeightMismatchError

# Maps the names of a layer norm's two vectors in BERT's oldest files to their names in newer files.
OLD_NORMS = {"LayerNorm.gamma": "LayerNorm.weight", "LayerNorm.beta": "LayerNorm.bias"}


def expand(names: Mapping[str, str], layers: int = 1, first: int = 0) -> list[tuple[str, str]]:
    """Returns (parameter, tensor) for each row of a name table, and for each layer of the model.

    Rows of a layer have `{i}` in both names, for the number of the layer. Parameters count layers
    from 0, and tensors from `first`.
    """
    return [
        (ours.format(i=layer), theirs.format(i=layer + first))
        for ours, theirs in names.items()
        for layer in range(layers if "{i}" in ours else 1)
    ]


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


def name_pairs(family: Family, encoder: TextEncoder) -> list[tuple[str, str]]:
    """Returns (parameter, tensor without the prefix of a task head) for every parameter."""
    parameters = dict(encoder.named_parameters())
    return [pair for pair in expand(family.names, len(encoder.layers)) if pair[0] in parameters]


def fill_encoder(encoder: TextEncoder, arrays: Arrays, family: Family, name: str) -> None:
    fill(encoder, normal_names(arrays, family), name_pairs(family, encoder), family.ignored, name)


def normal_names(arrays: Arrays, family: Family) -> Arrays:
    """Returns the tensors under the names of the family's table; splits those of several parts."""
    normal: dict[str, Any] = {}
    for tensor, array in arrays.items():
        short = tensor.removeprefix(family.prefix)
        for old, new in OLD_NORMS.items():
            short = short.removesuffix(old) + new if short.endswith(old) else short
        for whole, parts in family.splits.items():
            if short.endswith(whole) and len(array) % len(parts) == 0:
                start = short.removesuffix(whole)
                names = [start + part for part in parts]
                normal |= dict(zip(names, np.split(np.asarray(array), len(parts)), strict=True))
                break
        else:
            normal[short] = array
    return normal
