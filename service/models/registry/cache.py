"""The model cache: a folder with the files of pulled models, and with a record of each reference.

    references/                the records, one JSON file each
    hf/OWNER/COMMIT/NAME/      links to the files of a repository in Hugging Face's cache
    firefox/REVISION/PAIR/     files of a language pair
    argos/VERSION/PAIR/        files of an unpacked package
    argos/CHECKSUM/NAME/       files of a package that a reference names as a file

Paths in records are relative, so the cache may be copied to another machine or folder. Some links
may be symbolic, so the copy must follow links.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import quote

from service.disk import complete_file
from service.models.registry.errors import RegistryError
from service.models.registry.files import ModelFile, differing
from service.models.registry.references import COMMIT, ModelEntry

RECORDS = "references"


@dataclass(frozen=True, slots=True)
class Record:
    """A published version of a model, and the record of its pull."""

    reference: str
    folder: str  # relative to the cache; its last part is the served name
    revision: str  # a commit, or the first digits of the weights' checksum
    files: tuple[ModelFile, ...]

    def with_file(self, stored: ModelFile) -> "Record":
        files = tuple(stored if file.name == stored.name else file for file in self.files)
        return replace(self, files=files)

    @property
    def num_bytes(self) -> int:
        return sum(file.size or 0 for file in self.files)


class ModelCache:
    """Reads and writes the records of the cache, and checks the files of its models."""

    def __init__(self, root: Path) -> None:
        self.root = root

    @classmethod
    def at(cls, path: str) -> "ModelCache":
        """Returns the cache in a folder whose path may begin with `~`."""
        try:
            return cls(Path(path).expanduser())
        except RuntimeError as error:
            raise RegistryError(f"{path}: {error}; set REGARD_MODEL_CACHE to a folder") from error

    def folder(self, record: Record) -> Path:
        return self.root / record.folder

    def record(self, entry: ModelEntry) -> Record | None:
        """Returns the record of a model; None if the model was never pulled.

        The record of a branch may also have the commit that a reference names.
        """
        path = self._record_path(str(entry))
        if path.is_file():
            return _read_record(path)
        if not COMMIT.fullmatch(entry.revision):
            return None
        name = str(replace(entry, revision=""))
        same = (r for r in self.records() if r.reference.partition("@")[0] == name)
        found = next((record for record in same if record.revision == entry.revision), None)
        return found and replace(found, reference=str(entry))

    def records(self) -> list[Record]:
        return [_read_record(path) for path in sorted((self.root / RECORDS).glob("*.json"))]

    def save(self, record: Record) -> None:
        path = self._record_path(record.reference)
        files = [{"name": f.name, "size": f.size, "sha256": f.sha256} for f in record.files]
        content = {
            "reference": record.reference,
            "folder": record.folder,
            "revision": record.revision,
            "files": files,
        }
        try:
            with complete_file(path, is_durable=True) as file:
                file.write(json.dumps(content, indent=1).encode() + b"\n")
        except OSError as error:
            raise RegistryError(
                f"{path} cannot be written: {error.strerror}; "
                "set REGARD_MODEL_CACHE to a folder that can be written"
            ) from error

    def missing(self, record: Record) -> list[str]:
        """Returns one message for each file that is missing or has another size than recorded."""
        faults = []
        for file in record.files:
            path = self.folder(record) / file.name
            if not path.is_file():
                faults.append(f"{path} does not exist")
            elif file.size is not None and path.stat().st_size != file.size:
                faults.append(f"{path} has {path.stat().st_size} bytes, not {file.size}")
        return faults

    def damaged(self, record: Record) -> list[str]:
        """Returns one message for each file that differs from the record."""
        faults = self.missing(record)
        if not faults:
            sums = {file.name: file.sha256 for file in record.files if file.sha256}
            faults = differing(self.folder(record), sums)
        return faults

    def _record_path(self, reference: str) -> Path:
        return self.root / RECORDS / f"{quote(reference, safe='@')}.json"


def _read_record(path: Path) -> Record:
    try:
        content = json.loads(path.read_text("utf-8"))
        files = tuple(_read_file(entry) for entry in content["files"])
        folder = _inside(content["folder"])
        return Record(str(content["reference"]), folder, str(content["revision"]), files)
    except OSError as error:
        raise RegistryError(f"{path} cannot be read: {error.strerror}") from error
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise RegistryError(
            f"{path} is damaged ({error!r}); delete it and pull the model again"
        ) from error


def _read_file(entry: Mapping[str, Any]) -> ModelFile:
    size, digest = entry["size"], entry["sha256"]
    if not isinstance(size, int | None) or not isinstance(digest, str | None):
        raise ValueError(f"{entry['name']} has size {size!r} and checksum {digest!r}")
    return ModelFile(_inside(entry["name"]), size, digest)


def _inside(name: Any) -> str:
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts:
        raise ValueError(f"{name!r} is not a path inside the cache")
    return str(path)
