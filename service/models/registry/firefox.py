"""Mozilla's registry of the models that Firefox translates with.

Source: mozilla/translations, inference and db: `db/models.json` beside the models in Mozilla's
bucket. It lists models by pair of languages, each with an architecture, a release status and
files; weights have a sha256 sum and size, unpacked. All files are packed with gzip.
"""

import re
from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any
from urllib.parse import quote

from service.models.registry.errors import DownloadError, NotPublishedError
from service.models.registry.http_client import HttpClient, shown
from service.models.registry.references import Reference
from service.models.registry.remote import RemoteFile, RemoteModel

INDEX = "db/models.json"
PACKED = ".gz"
MODEL = "model"
NEEDED = ((MODEL, "vocab"), (MODEL, "srcVocab", "trgVocab"))
SHORTLIST = "lexicalShortlist"
NAME = re.compile(r"(?:model|lex|vocab|srcvocab|trgvocab)\.[\w.-]+\.(?:bin|spm)", re.ASCII)

STATUSES = ("Release Desktop", "Release", "Release Android")
ARCHITECTURES = ("base", "base-memory", "tiny")
"""Best first, of both: what Firefox has released before what it tries out, then the larger."""

REVISION_DIGITS = 12


def find_model(reference: Reference, http: HttpClient, base_url: str) -> RemoteModel:
    """The files of the best model for a pair of languages, or of that of an architecture.

    Args:
        reference: A pair, and perhaps an architecture.
        http: The client.
        base_url: Of the bucket, or of a mirror of it: the one that the index names is not used.

    Raises:
        RegistryError: It cannot be had, or there is none for that pair.
    """
    entry = choose_model(read_index(http, base_url), reference)
    try:
        files = [_to_file(entry["files"][role], base_url) for role in _roles(entry["files"])]
    except (KeyError, TypeError, AttributeError) as error:
        where = shown(f"{base_url}/{INDEX}")
        raise DownloadError(f"{where}: the entry of {reference} lacks {error!r}") from error
    weights = files[0]
    revision = (weights.sha256 or "unknown")[:REVISION_DIGITS]
    return RemoteModel(PurePosixPath("firefox", revision, reference.name), revision, tuple(files))


def read_index(http: HttpClient, base_url: str) -> Mapping[str, list[Mapping[str, Any]]]:
    """All models that are published, by pair of languages.

    Raises:
        RegistryError: The registry cannot be had.
    """
    url = f"{base_url}/{INDEX}"
    index = http.read_json(url)
    models = index.get("models") if isinstance(index, dict) else None
    if not isinstance(models, dict) or not all(map(_is_list_of_models, models.values())):
        raise DownloadError(f"{shown(url)} is no registry of models: it has no object 'models'")
    return models


def _is_list_of_models(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(each, dict) for each in value)


def choose_model(models: Mapping[str, Any], reference: Reference) -> Mapping[str, Any]:
    """The entry that a reference means.

    Raises:
        NotPublishedError: There is none for that pair or architecture.
    """
    entries = models.get(reference.name)
    if not entries:
        source = reference.name.partition("-")[0]
        known = sorted(pair for pair in models if pair.partition("-")[0] == source)
        raise NotPublishedError(
            f"Mozilla has published no model for {reference.name}; "
            + (f"from {source} there are {', '.join(known)}" if known else f"none reads {source}")
        )
    wanted = [e for e in entries if reference.revision in ("", e.get("architecture"))]
    if not wanted:
        known = sorted(str(entry.get("architecture")) for entry in entries)
        raise NotPublishedError(
            f"{reference.name} has no architecture {reference.revision}, only {', '.join(known)}"
        )
    best: Mapping[str, Any] = min(wanted, key=_order)
    return best


def _order(entry: Mapping[str, Any]) -> tuple[int, int]:
    return (
        _place(entry.get("releaseStatus"), STATUSES),
        _place(entry.get("architecture"), ARCHITECTURES),
    )


def _place(value: Any, order: Sequence[str]) -> int:
    return order.index(value) if value in order else len(order)


def _roles(files: Mapping[str, Any]) -> list[str]:
    """What of an entry is needed: weights first, vocabularies, and a shortlist where there is one.

    Raises:
        KeyError: Something is not there.
    """
    needed = next((roles for roles in NEEDED if all(role in files for role in roles)), None)
    if needed is None:
        raise KeyError("model and vocab")
    return [*needed, *([SHORTLIST] if SHORTLIST in files else [])]


def _to_file(entry: Mapping[str, Any], base_url: str) -> RemoteFile:
    path = str(entry["path"])
    name = PurePosixPath(path).name.removesuffix(PACKED)
    if not NAME.fullmatch(name):
        raise DownloadError(f"{path!r} in the registry is no file of a model")
    size = entry.get("uncompressedSize")
    return RemoteFile(
        name,
        f"{base_url}/{quote(path)}",
        size if isinstance(size, int) else None,
        entry.get("uncompressedHash"),
        is_packed=path.endswith(PACKED),
    )
