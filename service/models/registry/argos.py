"""Argos' index of translation models, and the packages in it, which are also files of users.

A package is a zip archive (`.argosmodel`): a model of CTranslate2, its SentencePiece file, its
languages, and data to split sentences, which is left out.

Source: argosopentech/argospm-index, index.json; argosopentech/argos-translate,
argostranslate/package.py. No code was copied.
"""

import re
import shutil
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any
from zipfile import ZIP_DEFLATED, ZIP_STORED, BadZipFile, ZipFile, ZipInfo

from model.checkpoints.families.ctranslate2_folder import METADATA
from model.checkpoints.formats.files import REVISION_DIGITS
from service.disk import complete_file
from service.models.registry.cache import ModelCache, Record
from service.models.registry.download import (
    HttpClient,
    disk_errors,
    download,
    fetching_forbidden,
    shown,
)
from service.models.registry.errors import RegistryError
from service.models.registry.files import BLOCK_BYTES, ModelFile, measure
from service.models.registry.references import PACKAGE_SUFFIX, REVISION, ModelEntry

MEMBER = re.compile(r"metadata\.json|[\w-][\w.-]*\.model|model/[\w-][\w.-]*", re.ASCII)

SPLITTER = "sbd"
"""Type of a package that only splits texts into sentences; others have no type, or translate."""

MAX_RATIO = 20
"""Largest ratio of the unpacked size of a package to its size."""

FOLDER = "argos"


class Argos:
    """The index of packages at an address."""

    def __init__(self, index: str, http: HttpClient, is_offline: bool = False) -> None:
        self.index, self.http, self.is_offline = index, http, is_offline

    def find(self, entry: ModelEntry) -> Record:
        """Returns the newest package of a language pair, or the one of a version."""
        if self.is_offline:
            raise fetching_forbidden(entry)
        packages = self.http.read_json(self.index)
        if not isinstance(packages, list) or not all(isinstance(each, dict) for each in packages):
            raise RegistryError(f"{shown(self.index)} is not an index of packages: it is no list")
        chosen = choose_package(packages, entry)
        version, links = str(chosen.get("package_version")), chosen.get("links")
        given = links if isinstance(links, list) else []
        urls = [str(link) for link in given if str(link).startswith(("https://", "http://"))]
        if not urls or not REVISION.fullmatch(version) or ".." in version:
            raise RegistryError(f"{shown(self.index)}: {entry} has no link or no version")
        folder = str(PurePosixPath(FOLDER, version, entry.name))
        archive = ModelFile(f"{entry.name}{PACKAGE_SUFFIX}", url=urls[0])
        return Record(str(entry), folder, version, (archive,))

    def fetch(self, record: Record, folder: Path) -> tuple[ModelFile, ...]:
        """Downloads the archive of a record into a folder, and returns its unpacked files."""
        (archive,) = record.files
        path = folder / archive.name
        download(archive, folder, self.http)
        try:
            return unpack(path, folder)
        finally:
            path.unlink()


def choose_package(packages: Sequence[Mapping[str, Any]], entry: ModelEntry) -> Mapping[str, Any]:
    source, target = entry.name.split("-")
    translators = [each for each in packages if each.get("type") != SPLITTER]
    alike = [each for each in translators if each.get("from_code") == source]
    found = [each for each in alike if each.get("to_code") == target]
    wanted = [e for e in found if entry.revision in ("", e.get("package_version"))]
    if not wanted:
        pairs = sorted(f"{source}-{each.get('to_code')}" for each in alike)
        versions = sorted(str(each.get("package_version")) for each in found)
        known = f"versions {', '.join(versions)}" if versions else f"the pairs {', '.join(pairs)}"
        raise RegistryError(f"Argos has published no package for {entry}; there are {known}")
    return max(wanted, key=lambda each: _numbers(str(each.get("package_version"))))


def _numbers(version: str) -> list[int]:
    return [int(part) for part in re.findall(r"\d+", version)]


def unpack(archive: Path, folder: Path) -> tuple[ModelFile, ...]:
    """Writes the files of a package that a model needs, `metadata.json` last."""
    try:
        with ZipFile(archive) as package, disk_errors(folder / METADATA):
            members = _members(package, archive)
            size = sum(info.file_size for info in members.values())  # never exceeded
            if size > MAX_RATIO * archive.stat().st_size:
                raise RegistryError(f"{archive} unpacks to over {MAX_RATIO} times its size")
            for name, info in members.items():
                with package.open(info) as content, complete_file(folder / name, True) as output:
                    shutil.copyfileobj(content, output, BLOCK_BYTES)
    except (BadZipFile, EOFError, ValueError, RuntimeError, zlib.error) as error:
        raise RegistryError(f"{archive} is cut short or damaged: {error}") from error
    return tuple(measure(name, folder / name) for name in members)


def _members(package: ZipFile, archive: Path) -> dict[str, ZipInfo]:
    infos = {PurePosixPath(info.filename): info for info in package.infolist()}
    root = min((p.parent for p in infos if p.name == METADATA), key=str, default=None)
    if root is None:
        raise RegistryError(f"{archive} is not a package of Argos: it has no {METADATA}")
    found = {}
    for path, info in infos.items():
        name = str(path.relative_to(root)) if path.is_relative_to(root) else ""
        if not MEMBER.fullmatch(name) or info.is_dir():
            continue
        if info.flag_bits & 1 or info.compress_type not in (ZIP_STORED, ZIP_DEFLATED):
            raise RegistryError(
                f"{archive}: {name} is encrypted, or packed in another way than by deflate"
            )
        found[name] = info
    return dict(sorted(found.items(), key=lambda item: item[0] == METADATA))


def unpacked(path: Path, cache: ModelCache) -> Path:
    """Returns the folder in the cache with the files of a package, which is unpacked once."""
    if not path.is_file():
        raise RegistryError(f"{path} does not exist, or is not a file")
    digest = str(measure(path.name, path).sha256)
    folder = cache.root / FOLDER / digest[:REVISION_DIGITS] / path.name.removesuffix(PACKAGE_SUFFIX)
    if not (folder / METADATA).is_file():
        unpack(path, folder)
    return folder
