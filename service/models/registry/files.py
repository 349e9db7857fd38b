"""Files of a model, published by a registry or stored on disk, with their checksums."""

import hashlib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath

from model.regular_files import MAX_WEIGHT_BYTES, check_file
from service.models.registry.errors import DamagedFileError, DownloadError, NotPublishedError

SHA256 = re.compile(r"[0-9a-f]{64}")
BLOCK_BYTES = 1 << 18
PARTIAL = ".part"
"""Suffix of a file that is not complete yet."""

WEIGHTS = (
    ("model.safetensors",),
    ("model.safetensors.index.json", re.compile(r"model-\d+-of-\d+\.safetensors")),
    ("pytorch_model.bin",),
    ("pytorch_model.bin.index.json", re.compile(r"pytorch_model-\d+-of-\d+\.bin")),
)
"""Weight files in order of preference.

An entry is one file, or an index and the pattern of its shards. `choose_files` takes the first
entry whose file or index exists.
"""

LOADER_FILES = frozenset(
    (
        "config.json generation_config.json tokenizer.json tokenizer_config.json "
        "special_tokens_map.json added_tokens.json vocab.json target_vocab.json vocab.txt "
        "merges.txt source.spm target.spm sentencepiece.bpe.model spiece.model tokenizer.model "
        "modules.json sentence_bert_config.json sentence_roberta_config.json "
        "sentence_xlm-roberta_config.json config_sentence_transformers.json"
    ).split()
)
"""Files that a loader reads in addition to the weights. All other files are ignored."""

MODULE_FOLDER = re.compile(r"\d+_[A-Za-z]+")
"""Pattern of the folder names of a sentence-transformers model, such as `1_Pooling`. Each of these
folders has a module that runs after the encoder."""


def is_sha256(value: object) -> bool:
    return isinstance(value, str) and SHA256.fullmatch(value) is not None


@dataclass(frozen=True, slots=True)
class StoredFile:
    """A complete file on disk.

    Attributes:
        name: Path inside the model's folder.
        size: Size in bytes.
        sha256: Sha256 checksum of the content.
    """

    name: str
    size: int
    sha256: str


@dataclass(frozen=True, slots=True)
class PublishedFile:
    """A published file.

    Attributes:
        name: Path inside the model's folder.
        url: Address of the file.
        size: Size on disk in bytes; None if the registry does not publish it.
        sha256: Sha256 checksum of the file on disk; None if the registry does not publish it.
        git_sha1: Git's blob id, which Hugging Face publishes for small files; None for other files.
        is_packed: Whether the registry may store the file packed with gzip.
    """

    name: str
    url: str
    size: int | None = None
    sha256: str | None = None
    git_sha1: str | None = None
    is_packed: bool = False

    def __post_init__(self) -> None:
        """Checks the form of the checksum.

        Some folders are named after the first digits of a checksum. A checksum with characters such
        as `/` could lead to a place outside the cache.
        """
        if not (self.sha256 is None or is_sha256(self.sha256)):
            raise DownloadError(
                f"{self.name} is published with {self.sha256!r}, which is not a sha256 sum"
            )


@dataclass(frozen=True, slots=True)
class PublishedModel:
    """One version of a published model.

    Attributes:
        name: Name of the model at its registry.
        folder: Folder of its files inside the cache; the last part is the served name.
        revision: Version of the model: a commit, or the first digits of the weights' checksum.
        files: All files that the model needs.
    """

    name: str
    folder: PurePosixPath
    revision: str
    files: tuple[PublishedFile, ...]

    def with_pins(self, pins: Mapping[str, str]) -> "PublishedModel":
        """Returns the same model; a file without a published checksum gets its pin as the checksum.

        Args:
            pins: Maps the names of files to the sha256 checksums that a manifest requires.
        """
        unknown = sorted(pins.keys() - {file.name for file in self.files})
        if unknown:
            names = ", ".join(file.name for file in self.files)
            raise NotPublishedError(f"the model has no file {', '.join(unknown)}; it has {names}")
        wrong = [
            f"{file.name} is published with the sha256 sum {file.sha256}, but {pin} is pinned"
            for file in self.files
            if (pin := pins.get(file.name)) and file.sha256 not in (None, pin)
        ]
        if wrong:
            raise DamagedFileError("; ".join(wrong))
        files = (replace(file, sha256=pins.get(file.name, file.sha256)) for file in self.files)
        return replace(self, files=tuple(files))


def choose_files(names: Iterable[str]) -> list[str]:
    """Returns the files of a repository that a model needs; [] if no weights are supported."""
    folders: dict[str, list[str]] = {}
    for path in map(PurePosixPath, names):
        folder = str(path.parent)
        if folder == "." or MODULE_FOLDER.fullmatch(folder):
            folders.setdefault(folder, []).append(path.name)
    if not _weights_of(folders.get(".", [])):
        return []
    return sorted(
        str(PurePosixPath(folder, name))
        for folder, files in folders.items()
        for name in [*_weights_of(files), *LOADER_FILES.intersection(files)]
    )


def _weights_of(names: list[str]) -> list[str]:
    for first, *shards in WEIGHTS:
        if first in names:
            return [str(first), *(n for n in names for s in shards if re.fullmatch(s, n))]
    return []


def measure(name: str, path: Path) -> StoredFile:
    """Reads a file and returns its size and checksum.

    Args:
        name: Path inside the model's folder.
        path: Path on disk.
    """
    check_file(path, MAX_WEIGHT_BYTES)
    with path.open("rb") as content:
        digest = hashlib.file_digest(content, "sha256").hexdigest()
        return StoredFile(name, content.tell(), digest)


def difference(stored: StoredFile, file: PublishedFile, path: Path) -> str | None:
    """Returns how a file on disk differs from the published one; None if it does not differ."""
    if file.size is not None and stored.size != file.size:
        return f"has {stored.size} bytes, not {file.size}"
    if file.sha256 is not None and stored.sha256 != file.sha256:
        return f"has the sha256 sum {stored.sha256}, not {file.sha256}"
    if file.git_sha1 is not None and (found := _git_sha1(path, stored.size)) != file.git_sha1:
        return f"has the git blob id {found}, not {file.git_sha1}"
    return None


def differing(folder: Path, sums: Mapping[str, str]) -> list[str]:
    """Returns one message for each file that cannot be read or has a different sha256 checksum.

    Args:
        folder: Folder that the paths are relative to.
        sums: Expected sha256 checksum of each file, by its path.
    """
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


def _git_sha1(path: Path, size: int) -> str:
    """Returns git's blob id of a file: the sha1 checksum of a header and the content.

    Source: https://git-scm.com/book/en/v2/Git-Internals-Git-Objects, "Object Storage".
    """
    digest = hashlib.sha1(b"blob %d\0" % size, usedforsecurity=False)
    with path.open("rb") as content:
        while block := content.read(BLOCK_BYTES):
            digest.update(block)
    return digest.hexdigest()
