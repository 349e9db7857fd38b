"""Tensors of a Hugging Face folder as float32 arrays. Nothing in a file is ever run."""

from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.torch import load_file

from model.checkpoints.json_files import read_options
from model.errors import CheckpointFormatError, CheckpointNotFoundError

SAFETENSORS = "model.safetensors"
SHARDED = "model.safetensors.index.json"
PICKLED = "pytorch_model.bin"

Arrays = dict[str, NDArray[np.float32]]


def weights_path(folder: Path) -> Path:
    """The file of weights in a folder; the first of safetensors, its index, and a pickle.

    Raises:
        CheckpointNotFoundError: There is none.
    """
    for name in (SAFETENSORS, SHARDED, PICKLED):
        if (folder / name).is_file():
            return folder / name
    raise CheckpointNotFoundError(
        f"{folder} holds no weights: no {SAFETENSORS}, {SHARDED} or {PICKLED}"
    )


def weight_files(path: Path) -> list[Path]:
    """The files that weights lie in: the shards of an index, or the file itself.

    Raises:
        CheckpointFormatError: The index is damaged or names a file outside its folder.
        CheckpointNotFoundError: A shard is not there.
    """
    if path.name != SHARDED:
        return [path]
    shards = [path.parent / name for name in sorted(set(_weight_map(path).values()))]
    missing = [shard.name for shard in shards if not shard.is_file()]
    if missing:
        raise CheckpointNotFoundError(f"{path} names shards that are missing: {missing}")
    return shards


def _weight_map(path: Path) -> dict[str, str]:
    weight_map = read_options(path).get("weight_map")
    if not isinstance(weight_map, dict) or not weight_map:
        raise CheckpointFormatError(f"{path} has no weight_map")
    for name in weight_map.values():
        if not isinstance(name, str) or Path(name).name != name:
            raise CheckpointFormatError(f"{path} names {name!r}, which is no file beside it")
    return weight_map


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
    named = _weight_map(path).keys()
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
