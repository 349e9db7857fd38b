"""Tensors of a Hugging Face folder as float32 arrays. Nothing in a file is ever run."""

from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.torch import load_file

from model.checkpoints.weight_files import SHARDED, read_weight_map, weight_files
from model.errors import CheckpointFormatError

Arrays = dict[str, NDArray[np.float32]]


def read_tensors(path: Path) -> Arrays:
    """All tensors of a file, or of all shards of an index.

    Args:
        path: From `weights_path`.

    Raises:
        CheckpointFormatError: A file is damaged, or holds something else than tensors.
        CheckpointNotFoundError: A shard is not there.
    """
    arrays: Arrays = {}
    for file in weight_files(path):
        found = _read_pickled(file) if file.suffix == ".bin" else _read_safetensors(file)
        arrays |= {name: as_array(tensor) for name, tensor in found.items()}
    if path.name == SHARDED:
        _check_index(path, arrays)
    return arrays


def as_array(tensor: torch.Tensor) -> NDArray[np.float32]:
    """In float32; no copy where it is in that already. Integers are not weights, but come along."""
    array: NDArray[np.float32] = tensor.detach().float().contiguous().numpy()
    return array


def _check_index(path: Path, arrays: Arrays) -> None:
    named = read_weight_map(path).keys()
    if named != arrays.keys():
        differing = ", ".join(sorted(named ^ arrays.keys()))
        raise CheckpointFormatError(f"{path} and its shards do not hold the same: {differing}")


def _read_safetensors(path: Path) -> dict[str, torch.Tensor]:
    try:
        return load_file(path)
    except (SafetensorError, OSError, ValueError, KeyError) as error:
        raise CheckpointFormatError(
            f"{path} is damaged, or is no safetensors file: {error}"
        ) from error


def _read_pickled(path: Path) -> dict[str, torch.Tensor]:
    """By torch's own unpickler, which makes tensors and plain containers and calls nothing.

    On damaged bytes it raises whatever it comes upon, and so everything is caught.
    """
    try:
        state: Any = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise CheckpointFormatError(
            f"{path} is damaged, or holds more than tensors, which is never loaded: {reason}"
        ) from error
    is_plain = isinstance(state, dict) and all(
        isinstance(name, str) and isinstance(tensor, torch.Tensor) for name, tensor in state.items()
    )
    if not is_plain:
        raise CheckpointFormatError(f"{path} holds something else than named tensors")
    tensors: dict[str, torch.Tensor] = state
    return tensors
