"""The folder of pulled models, and what is remembered of each.

    references/   one JSON file a reference: its folder, revision, files, sizes and sums
    hf/OWNER/COMMIT/NAME/      files of a repository
    firefox/REVISION/PAIR/     files of a pair

Paths inside are relative, so that the whole may be copied to another machine, or mounted elsewhere.
"""

import json
import os
import tempfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import quote

from service.models.registry.download import StoredFile, measure
from service.models.registry.errors import CacheError
from service.models.registry.references import COMMIT, Reference

RECORDS = "references"


@dataclass(frozen=True, slots=True)
class CachedFile:
    """A file that belongs to a model, there or not yet.

    Attributes:
        name: Its path inside the model's folder.
        size: In bytes; None while neither the registry nor the disk has told.
        sha256: Its sum; likewise.
    """

    name: str
    size: int | None
    sha256: str | None


@dataclass(frozen=True, slots=True)
class Record:
    """What is remembered of a reference.

    Attributes:
        reference: Its text.
        folder: Where its files lie, inside the cache.
        revision: Which version of the model they are.
        files: All that belong to it.
    """

    reference: str
    folder: str
    revision: str
    files: tuple[CachedFile, ...]

    def with_file(self, stored: StoredFile) -> "Record":
        """The same, with what is known of a file now that it is there."""
        files = (
            CachedFile(stored.name, stored.size, stored.sha256) if f.name == stored.name else f
            for f in self.files
        )
        return replace(self, files=tuple(files))

    @property
    def num_bytes(self) -> int:
        """Of all files whose size is known."""
        return sum(file.size or 0 for file in self.files)


class ModelCache:
    """Pulled models.

    Args:
        root: The folder; it need not be there yet.
    """

    def __init__(self, root: Path) -> None:
        self.root = root

    @classmethod
    def at(cls, path: str) -> "ModelCache":
        """The cache in a folder that may begin with `~`.

        Raises:
            CacheError: Nobody knows where home is.
        """
        try:
            return cls(Path(path).expanduser())
        except RuntimeError as error:
            raise CacheError(f"{path}: {error}; set REGARD_MODEL_CACHE to a folder") from error

    def folder(self, record: Record) -> Path:
        """Where a model's files lie."""
        return self.root / record.folder

    def record(self, reference: Reference) -> Record | None:
        """What is remembered of a reference; None where it was never pulled.

        A commit is also known where it was pulled as what a branch was then.

        Raises:
            CacheError: It is damaged.
        """
        path = self._record_path(str(reference))
        if path.is_file():
            return _read_record(path)
        if not COMMIT.fullmatch(reference.revision):
            return None
        name = str(replace(reference, revision=""))
        same = (r for r in self.records() if r.reference.partition("@")[0] == name)
        found = next((record for record in same if record.revision == reference.revision), None)
        return found and replace(found, reference=str(reference))

    def records(self) -> list[Record]:
        """All that are remembered, by reference.

        Raises:
            CacheError: One is damaged.
        """
        return [_read_record(path) for path in sorted((self.root / RECORDS).glob("*.json"))]

    def remember(self, record: Record) -> None:
        """Writes down what is known of a reference, in place of what was known before.

        Raises:
            CacheError: The cache cannot be written.
        """
        path = self._record_path(record.reference)
        content = json.dumps(asdict(record), indent=1) + "\n"
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            _replace(path, content)
        except OSError as error:
            raise CacheError(
                f"{path} cannot be written: {error.strerror}; "
                "set REGARD_MODEL_CACHE to a folder that can"
            ) from error

    def missing(self, record: Record) -> list[str]:
        """What is not there or has another size, a sentence each; sums are not computed."""
        faults = []
        for file in record.files:
            path = self.folder(record) / file.name
            if not path.is_file():
                faults.append(f"{path} is not there")
            elif file.size is not None and path.stat().st_size != file.size:
                faults.append(f"{path} has {path.stat().st_size} bytes, not {file.size}")
        return faults

    def damaged(self, record: Record) -> list[str]:
        """What differs from what is remembered, a sentence each; every file is read."""
        faults = self.missing(record)
        if not faults:
            sums = {file.name: file.sha256 for file in record.files if file.sha256}
            faults = differing(self.folder(record), sums)
        return faults

    def _record_path(self, reference: str) -> Path:
        return self.root / RECORDS / f"{quote(reference, safe='@')}.json"


def differing(folder: Path, sums: Mapping[str, str]) -> list[str]:
    """Files of a folder that are not there or have another sha256 sum, a sentence each."""
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


def _replace(path: Path, content: str) -> None:
    """Puts a file into place whole; nothing is left of it where that fails."""
    with tempfile.NamedTemporaryFile("w", dir=path.parent, delete=False) as file:
        try:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
            os.chmod(file.name, 0o644)  # a server may run as another user than who pulled
            os.replace(file.name, path)
        except BaseException:
            os.unlink(file.name)
            raise


def _read_record(path: Path) -> Record:
    try:
        content = json.loads(path.read_text("utf-8"))
        files = tuple(_read_file(entry) for entry in content["files"])
        folder = _inside(content["folder"])
        return Record(str(content["reference"]), folder, str(content["revision"]), files)
    except OSError as error:
        raise CacheError(f"{path} cannot be read: {error.strerror}") from error
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise CacheError(
            f"{path} is damaged ({error!r}); delete it and pull the model again"
        ) from error


def _read_file(entry: Mapping[str, Any]) -> CachedFile:
    size, digest = entry["size"], entry["sha256"]
    if not isinstance(size, int | None) or not isinstance(digest, str | None):
        raise ValueError(f"{entry['name']} has size {size!r} and sum {digest!r}")
    return CachedFile(_inside(entry["name"]), size, digest)


def _inside(name: Any) -> str:
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts:
        raise ValueError(f"{name!r} leads out of the cache")
    return str(path)
