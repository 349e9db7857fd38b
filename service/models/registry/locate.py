"""Finds the files of the models to serve, without using the network.

If files are missing, one error lists all missing files and the command that fetches them.
"""

import base64
import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from service.models.registry.cache import ModelCache, Record
from service.models.registry.errors import CacheError, DamagedFileError, MissingFilesError
from service.models.registry.files import differing
from service.models.registry.manifest import ModelEntry, read_entries
from service.models.registry.references import Source


@dataclass(frozen=True, slots=True)
class LocatedModel:
    """A model that can be loaded without a download.

    Its files are on disk, or it is a model of an endpoint (an `openai:` reference) without files.

    Attributes:
        entry: Entry that names the model.
        place: A folder, or a `package:` or `openai:` reference.
        record: Record of the model in the cache; None for a model that is not pulled.
    """

    entry: ModelEntry
    place: str
    record: Record | None = None


def locate(references: Sequence[str], cache: ModelCache, is_offline: bool) -> list[LocatedModel]:
    """Returns the models of a list of references and manifests; checks pinned checksums."""
    entries = read_entries(references)
    missing = [fault for entry in entries for fault in missing_files(entry, cache)]
    if missing:
        raise MissingFilesError(missing, _advice(references, cache, is_offline))
    damaged = [fault for entry in entries for fault in broken_pins(entry, cache)]
    if damaged:
        raise DamagedFileError("; ".join(damaged))
    return [place_of(entry, cache) for entry in entries]


def missing_files(entry: ModelEntry, cache: ModelCache) -> list[str]:
    """Returns one message for each pulled file that is missing or has another size than recorded.

    If the model was never pulled, a single message covers all its files. For a model that needs no
    pull, such as a folder, the list is empty.
    """
    if not entry.reference.is_pulled:
        return []
    record = cache.record(entry.reference)
    if record is not None:
        return [f"{entry.reference}: {fault}" for fault in cache.missing(record)]
    names = f" ({', '.join(entry.pins)})" if entry.pins else ""
    return [f"{entry.reference}: all files{names}, because it was never pulled into {cache.root}"]


def place_of(entry: ModelEntry, cache: ModelCache) -> LocatedModel:
    """Returns a model with the folder or reference from which it is loaded."""
    if not entry.reference.is_pulled:
        return LocatedModel(entry, str(entry.reference))
    record = cache.record(entry.reference)
    if record is None:
        raise CacheError(f"{entry.reference} was never pulled into {cache.root}")
    return LocatedModel(entry, str(cache.folder(record)), record)


def broken_pins(entry: ModelEntry, cache: ModelCache) -> list[str]:
    """Returns one message for each pinned file that is missing or has a different checksum."""
    if not entry.pins:
        return []
    return differing(root_of(place_of(entry, cache).place), entry.pins)


def root_of(place: str) -> Path:
    """Returns the folder that the paths of a model's files are relative to."""
    if not place.startswith(Source.PACKAGE):
        return Path(place)
    name = place.removeprefix(Source.PACKAGE)
    try:
        return Path(str(metadata.distribution(name).locate_file("")))
    except (metadata.PackageNotFoundError, ValueError) as error:
        raise CacheError(f"the package {name} is not installed") from error


def installed_sums(package: str) -> dict[str, str]:
    """Maps each file of an installed package to the sha256 checksum that pip recorded for it.

    Files without a recorded checksum are left out.
    """
    sums = {str(file): file.hash for file in metadata.files(package) or []}
    return {
        name: base64.urlsafe_b64decode(each.value + "=").hex()
        for name, each in sums.items()
        if each is not None and each.mode == "sha256"
    }


def _advice(references: Iterable[str], cache: ModelCache, is_offline: bool) -> str:
    needed = [text for text in references if _is_incomplete(text, cache)]
    command = shlex.join(["regard", "models", "pull", *needed])
    if is_offline:
        return (
            f"REGARD_OFFLINE is set: fetch them with `{command}` on a machine with a network, "
            f"then copy the folder REGARD_MODEL_CACHE of that machine to {cache.root}"
        )
    return f"fetch them with `{command}`, or start the server with REGARD_PULL=true"


def _is_incomplete(text: str, cache: ModelCache) -> bool:
    return any(missing_files(entry, cache) for entry in read_entries([text]))
