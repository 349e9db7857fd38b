"""Which files of a Hugging Face folder hold its weights (no torch)."""

from pathlib import Path

from model.checkpoints.json_files import read_options
from model.errors import CheckpointFormatError, CheckpointNotFoundError

SAFETENSORS = "model.safetensors"
SHARDED = "model.safetensors.index.json"
PICKLED = "pytorch_model.bin"


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
    shards = [path.parent / name for name in sorted(set(read_weight_map(path).values()))]
    missing = [shard.name for shard in shards if not shard.is_file()]
    if missing:
        raise CheckpointNotFoundError(f"{path} names shards that are missing: {missing}")
    return shards


def read_weight_map(path: Path) -> dict[str, str]:
    """The shard of each tensor, by an index.

    Raises:
        CheckpointFormatError: The index is damaged or names a file outside its folder.
    """
    weight_map = read_options(path).get("weight_map")
    if not isinstance(weight_map, dict) or not weight_map:
        raise CheckpointFormatError(f"{path} has no weight_map")
    for name in weight_map.values():
        if not isinstance(name, str) or Path(name).name != name:
            raise CheckpointFormatError(f"{path} names {name!r}, which is no file beside it")
    return weight_map
