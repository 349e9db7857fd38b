"""What the server starts from: models on disk. The network is never asked.

All that lacks is told at once, with the command that fetches it.
"""

import base64
import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from service.models.registry.cache import ModelCache, Record, differing
from service.models.registry.errors import CacheError, DamagedFileError, MissingFilesError
from service.models.registry.manifest import ModelEntry, read_entries
from service.models.registry.references import Source


@dataclass(frozen=True, slots=True)
class LocatedModel:
    """A model whose files are on disk.

    Attributes:
        entry: What was asked for.
        place: A folder or `package:NAME`, as `find_models` takes it.
        record: What the cache remembers; None where it is not from there.
    """

    entry: ModelEntry
    place: str
    record: Record | None = None


def locate(references: Sequence[str], cache: ModelCache, is_offline: bool) -> list[LocatedModel]:
    """The models of a list of references and manifests, pinned sums checked.

    Raises:
        MissingFilesError: With every file of every model that is not there or too short.
        DamagedFileError: With every file whose sum is not the one that is pinned.
        RegistryError: A reference, a manifest or the cache cannot be read.
    """
    entries = read_entries(references)
    missing = [fault for entry in entries for fault in missing_files(entry, cache)]
    if missing:
        raise MissingFilesError(missing, _advice(references, cache, is_offline))
    damaged = [fault for entry in entries for fault in broken_pins(entry, cache)]
    if damaged:
        raise DamagedFileError("; ".join(damaged))
    return [place_of(entry, cache) for entry in entries]


def missing_files(entry: ModelEntry, cache: ModelCache) -> list[str]:
    """What a model from a registry lacks, a sentence each.

    Raises:
        CacheError: What the cache remembers is damaged.
    """
    if not entry.reference.is_remote:
        return []
    record = cache.record(entry.reference)
    if record is not None:
        return [f"{entry.reference}: {fault}" for fault in cache.missing(record)]
    names = f" ({', '.join(entry.pins)})" if entry.pins else ""
    return [f"{entry.reference}: all files{names}; it was never pulled into {cache.root}"]


def place_of(entry: ModelEntry, cache: ModelCache) -> LocatedModel:
    """Where a model lies.

    Raises:
        CacheError: It was never pulled.
    """
    if not entry.reference.is_remote:
        return LocatedModel(entry, str(entry.reference))
    record = cache.record(entry.reference)
    if record is None:
        raise CacheError(f"{entry.reference} was never pulled into {cache.root}")
    return LocatedModel(entry, str(cache.folder(record)), record)


def broken_pins(entry: ModelEntry, cache: ModelCache) -> list[str]:
    """Pinned files that have another sum or are not there, a sentence each."""
    if not entry.pins:
        return []
    return differing(root_of(place_of(entry, cache).place), entry.pins)


def root_of(place: str) -> Path:
    """The folder that paths of a model's files begin in; of a package that it is installed in."""
    if not place.startswith(Source.PACKAGE):
        return Path(place)
    name = place.removeprefix(Source.PACKAGE)
    try:
        return Path(str(metadata.distribution(name).locate_file("")))
    except (metadata.PackageNotFoundError, ValueError) as error:
        raise CacheError(f"the package {name} is not installed") from error


def installed_sums(package: str) -> dict[str, str]:
    """The sha256 sum of each file of a package that pip wrote down when it was installed."""
    sums = {str(file): file.hash for file in metadata.files(package) or []}
    return {
        name: base64.urlsafe_b64decode(each.value + "=").hex()
        for name, each in sums.items()
        if each is not None and each.mode == "sha256"
    }


def _advice(references: Iterable[str], cache: ModelCache, is_offline: bool) -> str:
    needed = [text for text in references if _lacks_files(text, cache)]
    command = shlex.join(["regard", "models", "pull", *needed])
    if is_offline:
        return (
            f"REGARD_OFFLINE is set: where there is a network, fetch them with `{command}`, then "
            f"copy the folder REGARD_MODEL_CACHE of that machine to {cache.root}"
        )
    return f"fetch them with `{command}`, or let the start do it by REGARD_PULL=true"


def _lacks_files(text: str, cache: ModelCache) -> bool:
    return any(missing_files(entry, cache) for entry in read_entries([text]))
