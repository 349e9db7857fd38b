"""Mozilla's registry of the translation models of Firefox.

The index `db/models.json` lists the models of each language pair. For weights alone, it gives size
and sha256 checksum of the unpacked file. All files are packed with gzip.

Source: https://github.com/mozilla/translations, folders `inference` and `db`.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import quote

from model.checkpoints.formats.files import REVISION_DIGITS
from service.models.registry.cache import Record
from service.models.registry.download import (
    HttpClient,
    download,
    fetching_forbidden,
    require_space,
    shown,
)
from service.models.registry.errors import RegistryError
from service.models.registry.files import ModelFile, published_sum
from service.models.registry.references import ModelEntry

INDEX = "db/models.json"
PACKED = ".gz"
MODEL = "model"
NEEDED = ((MODEL, "vocab"), (MODEL, "srcVocab", "trgVocab"))
SHORTLIST = "lexicalShortlist"
NAME = re.compile(r"(?:model|lex|vocab|srcvocab|trgvocab)\.[\w.-]+\.(?:bin|spm)", re.ASCII)

STATUSES = ("Release Desktop", "Release", "Release Android")
ARCHITECTURES = ("base", "base-memory", "tiny")
"""STATUSES and ARCHITECTURES list values from the best to the worst. Other values are worse."""


class Firefox:
    """The registry of Mozilla, or a mirror of it. Addresses in its index are not used."""

    def __init__(self, base_url: str, http: HttpClient, is_offline: bool = False) -> None:
        self.base_url, self.http, self.is_offline = base_url, http, is_offline

    def find(self, entry: ModelEntry) -> Record:
        """Returns the best model of a language pair, or of the pair and an architecture."""
        if self.is_offline:
            raise fetching_forbidden(entry)
        published = choose_model(read_index(self.http, self.base_url), entry)
        try:
            files = published["files"]
            chosen = [_to_file(files[role], self.base_url) for role in _roles(files)]
        except (KeyError, TypeError, AttributeError) as error:
            where = shown(f"{self.base_url}/{INDEX}")
            raise RegistryError(
                f"{where}: the entry of {entry} is incomplete: {error!r}"
            ) from error
        revision = (chosen[0].sha256 or "unknown")[:REVISION_DIGITS]
        folder = str(PurePosixPath("firefox", revision, entry.name))
        return Record(str(entry), folder, revision, tuple(chosen))

    def require_space(self, files: Iterable[ModelFile], model: Record, folder: Path) -> None:
        require_space(folder, sum(file.size or 0 for file in files))

    def fetch(self, file: ModelFile, model: Record, folder: Path) -> ModelFile:
        return download(file, folder, self.http)


def read_index(http: HttpClient, base_url: str) -> Mapping[str, list[Mapping[str, Any]]]:
    url = f"{base_url}/{INDEX}"
    index = http.read_json(url)
    models = index.get("models") if isinstance(index, dict) else None
    if not isinstance(models, dict) or not all(map(_is_list_of_models, models.values())):
        raise RegistryError(f"{shown(url)} is not a registry of models: it has no object 'models'")
    return models


def _is_list_of_models(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(each, dict) for each in value)


def choose_model(models: Mapping[str, Any], entry: ModelEntry) -> Mapping[str, Any]:
    """Returns the entry with the best release status, and of these with the best architecture."""
    entries = models.get(entry.name)
    if not entries:
        source = entry.name.partition("-")[0]
        known = sorted(pair for pair in models if pair.partition("-")[0] == source)
        others = (
            f"from {source} there are {', '.join(known)}" if known else f"it has none from {source}"
        )
        raise RegistryError(f"Mozilla has published no model for {entry.name}; {others}")
    wanted = [e for e in entries if entry.revision in ("", e.get("architecture"))]
    if not wanted:
        known = sorted(str(e.get("architecture")) for e in entries)
        raise RegistryError(
            f"{entry.name} has no architecture {entry.revision}, only {', '.join(known)}"
        )
    best: Mapping[str, Any] = min(wanted, key=_order)
    return best


def _order(entry: Mapping[str, Any]) -> tuple[int, int]:
    return (
        _rank(entry.get("releaseStatus"), STATUSES),
        _rank(entry.get("architecture"), ARCHITECTURES),
    )


def _rank(value: Any, order: Sequence[str]) -> int:
    return order.index(value) if value in order else len(order)


def _roles(files: Mapping[str, Any]) -> list[str]:
    needed = next((roles for roles in NEEDED if all(role in files for role in roles)), None)
    if needed is None:
        raise KeyError("model and vocab")
    return [*needed, *([SHORTLIST] if SHORTLIST in files else [])]


def _to_file(entry: Mapping[str, Any], base_url: str) -> ModelFile:
    path = str(entry["path"])
    name = PurePosixPath(path).name.removesuffix(PACKED)
    if not NAME.fullmatch(name):
        raise RegistryError(f"{path!r} in the registry is not a file of a model")
    size = entry.get("uncompressedSize")
    return ModelFile(
        name,
        size if isinstance(size, int) else None,
        published_sum(name, entry.get("uncompressedHash")),
        f"{base_url}/{quote(path)}",
        is_packed=path.endswith(PACKED),
    )
