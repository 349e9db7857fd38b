"""Reads named tensors from safetensors files and PyTorch pickles, in one file or in shards.

Code in a pickle is not run.
"""

import re
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors.torch import load_file
from torch import Tensor

from model.checkpoints.formats.files import INDEX, Arrays, check_pointers, read_index, weight_files
from model.errors import CheckpointFormatError
from model.regular_files import MAX_WEIGHT_BYTES, check_file

# Finds the reason in PyTorch's message about a pickle that holds other objects than tensors.
# PyTorch's advice, which follows the reason, is left out.
REFUSED = re.compile(r"Unsupported (?:global|class)[^\n]*?(?= was not| which|$)", re.M)


def read_tensors(weights: Path) -> dict[str, NDArray[np.float32]]:
    """Returns every tensor as float32; `weights` is the result of `find_weights`."""
    arrays: dict[str, NDArray[np.float32]] = {}
    places: dict[str, str] = {}
    check_pointers(weight_files(weights))
    for path in weight_files(weights):
        for name, tensor in _read_file(path).items():
            if name in arrays:
                raise CheckpointFormatError(f"{path} and {places[name]} both have {name}")
            arrays[name] = _array(path, name, tensor)
            places[name] = path.name
    expected = read_index(weights) if weights.name.endswith(INDEX) else {}
    wrong = sorted(name for name in expected if places.get(name) != expected[name])
    if wrong:
        raise CheckpointFormatError(
            f"{weights} names the wrong shard for {len(wrong)} tensors, such as {wrong[0]}: "
            f"{expected[wrong[0]]} does not hold this tensor"
        )
    return arrays


def _read_file(path: Path) -> dict[str, Tensor]:
    try:
        check_file(path, MAX_WEIGHT_BYTES)
        if path.suffix == ".safetensors":
            tensors = load_file(path)
        else:
            tensors = torch.load(path, map_location="cpu", weights_only=True)
    except CheckpointFormatError:
        raise
    except Exception as error:  # a damaged pickle may raise an error of any type
        raise CheckpointFormatError(f"{path} {_reason(error)}") from error
    is_named = isinstance(tensors, dict) and all(isinstance(name, str) for name in tensors)
    if not (is_named and all(isinstance(value, Tensor) for value in tensors.values())):
        raise CheckpointFormatError(f"{path} holds something other than named tensors")
    found: dict[str, Tensor] = tensors
    return found


def _reason(error: Exception) -> str:
    if refused := REFUSED.search(str(error)):
        return f"holds more than tensors, and nothing of it was run: {refused[0]}"
    reason = (str(error) or type(error).__name__).splitlines()[0]
    if "weights_only" in reason:  # PyTorch advises weights_only=False, which runs code
        reason = "it is no pickle of tensors"
    return f"is cut short or damaged, or cannot be read: {reason}"


def _array(path: Path, name: str, tensor: Tensor) -> NDArray[np.float32]:
    is_plain = tensor.layout is torch.strided and not (tensor.is_quantized or tensor.is_complex())
    # A tensor of many values may be a view of a few bytes.
    if not is_plain or tensor.nbytes > tensor.untyped_storage().nbytes():
        raise CheckpointFormatError(f"{path}: {name} is not a plain array of numbers")
    try:
        array: NDArray[np.float32] = tensor.detach().float().contiguous().numpy()
    except (RuntimeError, TypeError) as error:  # such as a type of 4 bits
        raise CheckpointFormatError(f"{path}: {name} is not a plain array of numbers") from error
    return array


def merge_copies(
    arrays: Arrays, copies: Mapping[str, tuple[str, ...]], weights: Path
) -> dict[str, NDArray[np.float32]]:
    """Keeps one name of each tensor; `copies` maps it to other names, which must be equal."""
    merged = dict(arrays)
    for kept, others in copies.items():
        for name in others:
            copy = merged.pop(name, None)
            if copy is not None and not np.array_equal(merged.setdefault(kept, copy), copy):
                raise CheckpointFormatError(
                    f"{weights}: {name} and {kept} differ; the config says that they are one tensor"
                )
    return merged
