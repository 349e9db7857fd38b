"""Which files hold the tensors of a model that comes in shards. Without torch."""

import json
from pathlib import Path

from model.errors import CheckpointFormatError, CheckpointNotFoundError

INDEX = ".index.json"


def weight_files(weights: Path) -> list[Path]:
    """The files that hold the tensors: the one named, or the shards that an index names.

    Raises:
        CheckpointFormatError: The index is damaged, or names something outside its folder.
        CheckpointNotFoundError: A shard is not there.
    """
    if not weights.name.endswith(INDEX):
        return [weights]
    names = sorted(set(read_index(weights).values()))
    missing = [name for name in names if not (weights.parent / name).is_file()]
    if missing:
        raise CheckpointNotFoundError(f"{weights.name} names files not there: {', '.join(missing)}")
    return [weights.parent / name for name in names]


def read_index(path: Path) -> dict[str, str]:
    """The file of each tensor, by the tensor's name.

    Raises:
        CheckpointFormatError: It is damaged, or names something outside its folder.
    """
    try:
        files = json.loads(path.read_text(encoding="utf-8"))["weight_map"]
        outside = [name for name in files.values() if Path(name).name != name]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise CheckpointFormatError(f"{path.name} is not an index of shards: {error!r}") from error
    if outside or not files:
        raise CheckpointFormatError(f"{path.name} names no file of its folder: {outside[:3]}")
    return dict(files)
