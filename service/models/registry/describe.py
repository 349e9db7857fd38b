"""Describes models and their files."""

from collections.abc import Iterable
from pathlib import Path

from model.checkpoints.families.cross_encoders import (
    CrossEncoderFiles,
    by_architecture,
    read_cross_encoder,
)
from model.checkpoints.families.sentence_transformers import (
    MODULES,
    EmbeddingFiles,
    find_embedding_models,
    read_config,
)
from model.checkpoints.load import find_models
from model.errors import CheckpointError, CheckpointNotFoundError
from service.models.catalog import NAMES
from service.models.registry.files import PARTIAL, StoredFile, measure
from service.models.registry.locate import LocatedModel, root_of
from service.models.registry.references import Source
from service.models.remote import find_remote


def describe(place: str) -> str:
    """Returns a short description of the models at a place, such as `translates en-de`.

    Args:
        place: A folder, `package:NAME`, or a reference to a remote model.
    """
    if remote := find_remote(place):
        return "translates " + ", ".join(files.name for files in remote) + " at its endpoint"
    try:
        return "translates " + ", ".join(files.name for files in find_models(place))
    except CheckpointError as translation:
        try:
            return "; ".join(map(_describe_texts, find_embedding_models(place)))
        except CheckpointError as embedding:
            is_embedding = any(Path(place).rglob(MODULES))
            raise (embedding if is_embedding else translation) from embedding


def _describe_texts(files: EmbeddingFiles) -> str:
    """Returns `embeds as NAME` or `reranks as NAME`, with the served name of the model."""
    found = by_architecture(files)
    name = NAMES.get(files.name, files.name)
    if isinstance(found, CrossEncoderFiles):
        read_cross_encoder(found)
        return f"reranks as {name}"
    read_config(found)
    return f"embeds as {name}"


def folders_of(place: str) -> list[Path]:
    """Returns the folder of each model at a place."""
    try:
        return [files.weights.parent for files in find_models(place)]
    except CheckpointNotFoundError:
        return [files.folder for files in find_embedding_models(place)]


def placements_of(located: Iterable[LocatedModel]) -> dict[str, tuple[str, str]]:
    """Maps the folder of each model to the device and dtype that a manifest sets for the model.

    A manifest is a file that lists models. If the manifest sets only one of the two values, the
    other value is an empty text. If the manifest sets neither value, the folder is left out.
    """
    return {
        str(folder): (model.entry.device, model.entry.dtype)
        for model in located
        if model.entry.device or model.entry.dtype
        for folder in folders_of(model.place)
    }


def files_of(located: LocatedModel) -> list[StoredFile]:
    """Returns the files of a model with their sizes and checksums.

    For a pulled model, these are the files that the model cache has recorded. For a package, these
    are the files in the folders of its models. For a folder, these are all files whose suffix is
    not PARTIAL.
    """
    root = root_of(located.place)
    if located.record is not None:
        names = [file.name for file in located.record.files]
    elif located.place.startswith(Source.PACKAGE):
        names = _package_files(located.place, root)
    else:
        paths = (path for path in sorted(root.rglob("*")) if path.is_file())
        names = [path.relative_to(root).as_posix() for path in paths if path.suffix != PARTIAL]
    return [measure(name, root / name) for name in names]


def _package_files(place: str, root: Path) -> list[str]:
    paths = sorted(p for folder in folders_of(place) for p in folder.rglob("*") if p.is_file())
    return list(dict.fromkeys(path.relative_to(root).as_posix() for path in paths))
