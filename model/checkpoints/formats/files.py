"""Reads JSON and YAML files, maps files, and finds weight files. Does not import torch."""

import hashlib
import json
import mmap
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from numpy.typing import NDArray

from model.errors import CheckpointFormatError, CheckpointNotFoundError, UnsupportedModelError
from model.regular_files import MAX_WEIGHT_BYTES, check_file

MAX_VALUES = 100_000

YAML_ERRORS = (yaml.YAMLError, ValueError, LookupError, AttributeError, RecursionError)
"""Errors of `load_yaml`, and of code that takes values from its result.

PyYAML raises built-in errors for malformed dates, booleans and numbers, and for deep nesting."""

POINTER = b"version https://git-lfs.github.com/spec/v1"
"""First line of every pointer of Git LFS. Source: git-lfs, docs/spec.md."""

INDEX = ".index.json"
WEIGHTS = (
    "model.safetensors",
    f"model.safetensors{INDEX}",
    "pytorch_model.bin",
    f"pytorch_model.bin{INDEX}",
)
"""Names of weight files, in order of preference. The first file that exists is read."""

REVISION_DIGITS = 12

Arrays = Mapping[str, NDArray[np.float32]]
"""Tensors by name."""

Integers = tuple[NDArray[np.int8], NDArray[np.float32]]
"""The int8 values of a matrix (out, in), and the step between two values of each row."""


class TensorFile(Arrays):
    """The tensors of a file. A tensor is read when it is used."""

    entries: dict[str, Any]  # the place, type and shape of each tensor, by name

    def __contains__(self, name: object) -> bool:
        return name in self.entries

    def __iter__(self) -> Iterator[str]:
        return iter(self.entries)

    def __len__(self) -> int:
        return len(self.entries)


def read_json(path: Path) -> Any:
    try:
        check_file(path)
        return json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise CheckpointNotFoundError(f"{path} cannot be read: {error.strerror}") from error
    except (ValueError, RecursionError) as error:  # UnicodeDecodeError is a ValueError
        raise CheckpointFormatError(f"{path} is not JSON: {error}") from error


def read_options(path: Path) -> dict[str, Any]:
    options = read_json(path)
    if not isinstance(options, dict):
        raise CheckpointFormatError(f"{path} holds no JSON object")
    return options


def read_options_if_there(
    path: Path, supported: Mapping[str, Collection[Any]] | None = None
) -> dict[str, Any]:
    """Returns the options of a file, {} without a file; refuses values that are not implemented."""
    options = read_options(path) if path.is_file() else {}
    if reasons := unsupported(options, supported or {}):
        raise UnsupportedModelError(str(path), reasons)
    return options


def unsupported(options: Mapping[str, Any], supported: Mapping[str, Collection[Any]]) -> list[str]:
    """Returns one reason for each option whose value is not among those implemented."""
    return [
        f"{name} is {options[name]!r}, supported: {', '.join(map(repr, values))}"
        for name, values in supported.items()
        if name in options and options[name] not in values
    ]


def size_reasons(
    sizes: Mapping[str, Any], vocab_sizes: Mapping[str, Any], num_bytes: int
) -> list[str]:
    """Returns the reasons to refuse values that are no sizes, or that need too many weights.

    `sizes` begins with d_model, ffn_dim, and the numbers of encoder and decoder layers.
    """
    named = {**sizes, **vocab_sizes}
    wrong = {name: size for name, size in named.items() if type(size) is not int or size < 1}
    if wrong:
        return [f"{name} is {size!r}, not a size" for name, size in wrong.items()]
    width, ffn_dim, encoder_layers, decoder_layers = [*sizes.values()][:4]
    layers = (encoder_layers + decoder_layers) * max(width, ffn_dim)
    needed = width * max([layers, *vocab_sizes.values()])
    reason = f"the sizes need {needed} weights, but the files have only {num_bytes} bytes"
    return [reason] if needed > num_bytes else []


def load_yaml(text: str | bytes) -> Any:
    """Returns the content of a YAML text, or raises one of YAML_ERRORS.

    Nested aliases can stand for billions of values, which an error message would print, so such a
    text is refused.
    """
    content = yaml.safe_load(text)
    if (number := _num_values(content, {})) > MAX_VALUES:
        raise ValueError(f"with its aliases it has {number} values; the limit is {MAX_VALUES}")
    return content


def _num_values(content: Any, known: dict[int, int]) -> int:
    if not isinstance(content, dict | list | tuple | set):
        return 1
    if id(content) not in known:
        values = content.values() if isinstance(content, dict) else content
        known[id(content)] = 1 + sum(_num_values(value, known) for value in values)
    return known[id(content)]


def check_pointers(paths: Iterable[Path]) -> None:
    """Refuses pointers of Git LFS, which stand for large files in a clone without Git LFS."""
    there = [path for path in dict.fromkeys(paths) if path.exists() and not path.is_dir()]
    found = []
    for path in there:
        check_file(path, MAX_WEIGHT_BYTES)
        with path.open("rb") as file:
            if file.read(len(POINTER)) == POINTER:
                found.append(path)
    if found:
        names = ", ".join(map(str, found))
        raise CheckpointFormatError(
            f"{names}: pointers of Git LFS, not the files themselves. Fetch them with "
            "`git lfs pull`, or download them"
        )


def map_file(path: Path) -> mmap.mmap | bytes:
    check_file(path, MAX_WEIGHT_BYTES)
    with path.open("rb") as file:
        if not path.stat().st_size:
            return b""  # an empty file cannot be mapped
        return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)


def find_weights(folder: Path, others: Iterable[str] = ()) -> Path:
    """Returns the file of tensors, or the index of shards; `others` must also be in the folder."""
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
    if not weights.name.endswith(INDEX):
        return [weights]
    names = sorted(set(read_index(weights).values()))
    missing = [name for name in names if not (weights.parent / name).is_file()]
    if missing:
        raise CheckpointNotFoundError(f"{weights} names missing files: {', '.join(missing)}")
    return [weights.parent / name for name in names]


def read_index(path: Path) -> dict[str, str]:
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
    digest = hashlib.sha256()
    for path in weight_files(weights):
        check_file(path, MAX_WEIGHT_BYTES)
        with path.open("rb") as file:
            while block := file.read(1 << 20):
                digest.update(block)
    return digest.hexdigest()[:REVISION_DIGITS]
