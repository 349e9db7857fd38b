"""Finds the weight files of a Hugging Face model: one file, or an index and shards.

Does not import torch.
"""

import hashlib
from collections.abc import Iterable
from pathlib import Path

from model.checkpoints.formats.json_files import read_options
from model.errors import CheckpointFormatError, CheckpointNotFoundError
from model.regular_files import MAX_WEIGHT_BYTES, check_file

INDEX = ".index.json"
WEIGHTS = (
    "model.safetensors",
    f"model.safetensors{INDEX}",
    "pytorch_model.bin",
    f"pytorch_model.bin{INDEX}",
)
"""Names of weight files, in order of preference. The first file that exists is read."""

REVISION_DIGITS = 12


def find_weights(folder: Path, others: Iterable[str] = ()) -> Path:
    """Returns the file of tensors, or the index if the tensors are in shards.

    Args:
        folder: The folder of the model.
        others: Names of other files that must be in the folder.

    Raises:
        CheckpointFormatError: Files are missing; the message names all of them.
    """
    weights = next((folder / name for name in WEIGHTS if (folder / name).is_file()), None)
    missing = [name for name in others if not (folder / name).is_file()]
    if weights is None:
        missing.append(" or ".join(WEIGHTS))
    if missing or weights is None:
        raise CheckpointFormatError(
            f"{folder} is not a complete model: it has no {', '.join(missing)}"
        )
    return weights


def weight_files(weights: Path) -> list[Path]:
    """Returns the files that hold the tensors: the given file, or the shards of a given index.

    Raises:
        CheckpointFormatError: The index is damaged, or names a file outside its folder.
        CheckpointNotFoundError: A shard is missing, or the index cannot be read.
    """
    if not weights.name.endswith(INDEX):
        return [weights]
    names = sorted(set(read_index(weights).values()))
    missing = [name for name in names if not (weights.parent / name).is_file()]
    if missing:
        raise CheckpointNotFoundError(f"{weights} names missing files: {', '.join(missing)}")
    return [weights.parent / name for name in names]


def read_index(path: Path) -> dict[str, str]:
    """Maps the name of each tensor to the name of the file that holds it.

    Raises:
        CheckpointNotFoundError: The index cannot be read.
        CheckpointFormatError: The index is damaged, or names a file outside its folder.
    """
    files = read_options(path).get("weight_map")
    if not isinstance(files, dict) or not files:
        raise CheckpointFormatError(f"{path} is not an index of shards: it has no weight_map")
    for name in files.values():
        if not isinstance(name, str) or Path(name).name != name:
            raise CheckpointFormatError(
                f"{path} names {name!r}, which is not a file name in its folder"
            )
    return files


def revision_of(weights: Path) -> str:
    """Returns the first `REVISION_DIGITS` hex digits of the sha256 checksum of the weights.

    The checksum covers the contents of all shards, in the order of their names.

    Raises:
        CheckpointError: A shard is missing, the index is damaged, or a file is too large.
        OSError: A file cannot be read.
    """
    digest = hashlib.sha256()
    for path in weight_files(weights):
        check_file(path, MAX_WEIGHT_BYTES)
        with path.open("rb") as file:
            while block := file.read(1 << 20):
                digest.update(block)
    return digest.hexdigest()[:REVISION_DIGITS]
