"""Finds the models to serve on disk, without using the network, and describes them."""

import base64
import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from model.checkpoints.families.cross_encoders import CrossEncoderFiles, read_cross_encoder
from model.checkpoints.families.sentence_transformers import EmbeddingFiles, read_config
from model.checkpoints.load import ModelFiles
from service.disk import PARTIAL
from service.models.catalog import find_local
from service.models.registry.cache import ModelCache, Record
from service.models.registry.errors import RegistryError
from service.models.registry.files import ModelFile, differing, measure
from service.models.registry.references import PACKAGE_SUFFIX, ModelEntry, Source, read_entries
from service.models.remote import find_remote


@dataclass(frozen=True, slots=True)
class LocatedModel:
    """A model that can be loaded without a download."""

    entry: ModelEntry
    place: str  # a folder, or a `package:` or `openai:` reference
    record: Record | None = None  # None for a model that is not pulled


def locate(references: Sequence[str], cache: ModelCache, is_offline: bool) -> list[LocatedModel]:
    """Returns the models of a list of references and manifests; checks pinned checksums."""
    entries = read_entries(references)
    missing = [fault for entry in entries for fault in missing_files(entry, cache)]
    if missing:
        lines = [f"  {fault}" for fault in missing]
        advice = _advice(references, cache, is_offline)
        raise RegistryError("\n".join(["models are not complete:", *lines, advice]))
    damaged = [fault for entry in entries for fault in broken_pins(entry, cache)]
    if damaged:
        raise RegistryError("; ".join(damaged))
    return [place_of(entry, cache) for entry in entries]


def missing_files(entry: ModelEntry, cache: ModelCache) -> list[str]:
    """Returns one message for each pulled file that is missing or has another size."""
    if not entry.is_pulled:
        return []
    record = cache.record(entry)
    if record is not None:
        return [f"{entry}: {fault}" for fault in cache.missing(record)]
    names = f" ({', '.join(entry.pins)})" if entry.pins else ""
    return [f"{entry}: all files{names}, because it was never pulled into {cache.root}"]


def place_of(entry: ModelEntry, cache: ModelCache) -> LocatedModel:
    if entry.source is Source.FOLDER and entry.name.endswith(PACKAGE_SUFFIX):
        from service.models.registry.argos import unpacked  # its imports take 0.2 s

        return LocatedModel(entry, str(unpacked(Path(entry.name), cache)))
    if not entry.is_pulled:
        return LocatedModel(entry, str(entry))
    record = cache.record(entry)
    if record is None:
        raise RegistryError(f"{entry} was never pulled into {cache.root}")
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
        raise RegistryError(f"the package {name} is not installed") from error


def installed_sums(package: str) -> dict[str, str]:
    """Maps the files of an installed package to the sha256 checksums that pip recorded."""
    sums = {str(file): file.hash for file in metadata.files(package) or []}
    return {
        name: base64.urlsafe_b64decode(each.value + "=").hex()
        for name, each in sums.items()
        if each is not None and each.mode == "sha256"
    }


def _advice(references: Iterable[str], cache: ModelCache, is_offline: bool) -> str:
    needed = [
        text for text in references if any(missing_files(e, cache) for e in read_entries([text]))
    ]
    command = shlex.join(["regard", "models", "pull", *needed])
    if is_offline:
        return (
            f"REGARD_OFFLINE is set: fetch them with `{command}` on a machine with a network, "
            f"then copy the folder REGARD_MODEL_CACHE of that machine to {cache.root}"
        )
    return f"fetch them with `{command}`, or start the server with REGARD_PULL=true"


def describe(place: str) -> str:
    """Returns a short description of the models at a place, such as `translates en-de`."""
    if remote := find_remote(place):
        return "translates " + ", ".join(files.name for files in remote) + " at its endpoint"
    found = find_local(place)
    pairs = [files.name for files in found if isinstance(files, ModelFiles)]
    texts = [_describe_texts(files) for files in found if isinstance(files, EmbeddingFiles)]
    return "; ".join([*(["translates " + ", ".join(pairs)] if pairs else []), *texts])


def _describe_texts(files: EmbeddingFiles) -> str:
    if isinstance(files, CrossEncoderFiles):
        read_cross_encoder(files)
        return f"reranks as {files.name}"
    read_config(files)
    return f"embeds as {files.name}"


def folders_of(place: str) -> list[Path]:
    return [files.folder for files in find_local(place)]


def placements_of(located: Iterable[LocatedModel]) -> dict[str, tuple[str, str]]:
    """Maps the folder of each model to the device and dtype of the manifest; "" if not set."""
    return {
        str(folder): (model.entry.device, model.entry.dtype)
        for model in located
        if model.entry.device or model.entry.dtype
        for folder in folders_of(model.place)
    }


def files_of(located: LocatedModel) -> list[ModelFile]:
    """Returns the files of a model with their sizes and checksums.

    These are the recorded files of a pulled model, the files in the folders of a package's models,
    or all complete files of a folder.
    """
    place, record = located.place, located.record
    root = root_of(place)
    if record is not None:
        names = [file.name for file in record.files]
    else:
        is_package = place.startswith(Source.PACKAGE)
        folders = folders_of(place) if is_package else [root]
        found = [path for folder in folders for path in folder.rglob("*") if path.is_file()]
        paths = [path for path in sorted(found) if is_package or path.suffix != PARTIAL]
        names = [*dict.fromkeys(path.relative_to(root).as_posix() for path in paths)]
    return [measure(name, root / name) for name in names]
