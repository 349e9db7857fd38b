"""Files of a model, published by a registry or stored on disk, with their checksums."""

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import TypeGuard

from model.checkpoints.families.ctranslate2_folder import WEIGHTS as CONVERTED
from model.checkpoints.families.sentence_transformers import TRANSFORMER_CONFIGS
from model.checkpoints.formats.files import INDEX, WEIGHTS
from model.regular_files import MAX_WEIGHT_BYTES, check_file
from service.models.registry.errors import RegistryError

SHA256 = re.compile(r"[0-9a-f]{64}")
BLOCK_BYTES = 1 << 18

LOADER_FILES = frozenset(TRANSFORMER_CONFIGS).union(
    (
        "config.json generation_config.json tokenizer.json tokenizer_config.json "
        "special_tokens_map.json added_tokens.json vocab.json target_vocab.json vocab.txt "
        "merges.txt source.spm target.spm sentencepiece.bpe.model spiece.model tokenizer.model "
        "artifact.metadata chat_template.jinja modules.json router_config.json "
        "config_sentence_transformers.json sentencepiece.model "
        "shared_vocabulary.json source_vocabulary.json target_vocabulary.json "
        "shared_vocabulary.txt source_vocabulary.txt target_vocabulary.txt"
    ).split()
)
"""Files that a loader reads in addition to the weights. All other files are ignored."""

MODULE = r"(?:[a-z]+_)?\d+_[A-Za-z]+"
MODULE_FOLDER = re.compile(rf"{MODULE}(?:/{MODULE})?")
"""Folders of modules of sentence-transformers: `1_Pooling`, or `query_0_Dense` of a Router."""


def is_sha256(value: object) -> TypeGuard[str]:
    return isinstance(value, str) and SHA256.fullmatch(value) is not None


def published_sum(name: str, value: object) -> str | None:
    """Checks the sha256 checksum that a registry publishes for a file; None means none.

    Some folders are named after the first digits of a checksum, so it must not contain `/`.
    """
    if not (value is None or is_sha256(value)):
        raise RegistryError(f"{name} is published with {value!r}, which is not a sha256 sum")
    return value


@dataclass(frozen=True, slots=True)
class ModelFile:
    """A file of a model, as a registry publishes it, or as it is on disk."""

    name: str  # path inside the model's folder
    size: int | None = None  # bytes on disk; None if not known before the file is fetched
    sha256: str | None = None  # on disk; None if not known before the file is fetched
    url: str = ""
    git_sha1: str | None = None  # Git's blob id, which Hugging Face publishes for small files
    is_packed: bool = False  # whether the registry may store the file packed with gzip


def with_pins(files: Sequence[ModelFile], pins: Mapping[str, str]) -> tuple[ModelFile, ...]:
    """Returns published files with the checksums of a manifest where none is published."""
    unknown = sorted(pins.keys() - {file.name for file in files})
    if unknown:
        names = ", ".join(file.name for file in files)
        raise RegistryError(f"the model has no file {', '.join(unknown)}; it has {names}")
    wrong = [
        f"{file.name} is published with the sha256 sum {file.sha256}, but {pin} is pinned"
        for file in files
        if (pin := pins.get(file.name)) and file.sha256 not in (None, pin)
    ]
    if wrong:
        raise RegistryError("; ".join(wrong))
    return tuple(replace(file, sha256=pins.get(file.name, file.sha256)) for file in files)


def choose_files(names: Iterable[str]) -> list[str]:
    """Returns the files of a repository that a model needs; [] if no weights are supported."""
    folders: dict[str, list[str]] = {}
    for path in map(PurePosixPath, names):
        folder = str(path.parent)
        if folder == "." or MODULE_FOLDER.fullmatch(folder):
            folders.setdefault(folder, []).append(path.name)
    if not any(map(_weights_of, folders.values())):
        return []
    return sorted(
        str(PurePosixPath(folder, name))
        for folder, files in folders.items()
        for name in [*_weights_of(files), *LOADER_FILES.intersection(files)]
    )


def _weights_of(names: list[str]) -> list[str]:
    """Returns the preferred file of weights, and its shards if it is an index; [] for none."""
    first = next((name for name in (*WEIGHTS, CONVERTED) if name in names), None)
    if first is None:
        return []
    stem, _, suffix = first.removesuffix(INDEX).rpartition(".")
    shard = re.compile(rf"{stem}-\d+-of-\d+\.{suffix}")
    return [first, *(name for name in names if first.endswith(INDEX) and shard.fullmatch(name))]


def measure(name: str, path: Path) -> ModelFile:
    """Reads a file and returns its size and checksum; `name` is the path inside the folder."""
    check_file(path, MAX_WEIGHT_BYTES)
    with path.open("rb") as content:
        digest = hashlib.file_digest(content, "sha256").hexdigest()
        return ModelFile(name, content.tell(), digest)


def difference(stored: ModelFile, file: ModelFile, path: Path) -> str | None:
    """Returns how a file on disk differs from the published one; None if it does not differ."""
    if file.size is not None and stored.size != file.size:
        return f"has {stored.size} bytes, not {file.size}"
    if file.sha256 is not None and stored.sha256 != file.sha256:
        return f"has the sha256 sum {stored.sha256}, not {file.sha256}"
    if file.git_sha1 is not None and (found := _git_sha1(path)) != file.git_sha1:
        return f"has the git blob id {found}, not {file.git_sha1}"
    return None


def differing(folder: Path, sums: Mapping[str, str]) -> list[str]:
    """Returns one message for each file that cannot be read or has a different sha256 checksum."""
    faults = []
    for name, expected in sums.items():
        path = folder / name
        try:
            found = measure(name, path).sha256
        except OSError as error:
            faults.append(f"{path} cannot be read: {error.strerror}")
            continue
        if found != expected:
            faults.append(f"{path} has the sha256 sum {found}, not {expected}: it is damaged")
    return faults


def _git_sha1(path: Path) -> str:
    """Returns git's blob id of a file.

    Source: https://git-scm.com/book/en/v2/Git-Internals-Git-Objects, "Object Storage".
    """
    digest = hashlib.sha1(b"blob %d\0" % path.stat().st_size, usedforsecurity=False)
    with path.open("rb") as content:
        return hashlib.file_digest(content, lambda: digest).hexdigest()
