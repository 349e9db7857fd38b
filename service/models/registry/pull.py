"""A reference -> its files in the cache."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path

from service.models.registry import firefox, hub
from service.models.registry.cache import CachedFile, ModelCache, Record
from service.models.registry.download import (
    PART,
    Report,
    StoredFile,
    difference,
    download,
    measure,
    require_space,
)
from service.models.registry.errors import OfflineError
from service.models.registry.http_client import HttpClient
from service.models.registry.manifest import ModelEntry
from service.models.registry.references import COMMIT, Reference, Source
from service.models.registry.remote import RemoteFile, RemoteModel

OpenBar = Callable[[str, int | None], AbstractContextManager[Report]]
"""Opens the display of one file's progress, by its name and size."""


@dataclass(frozen=True, slots=True)
class Registries:
    """Where models are published.

    Attributes:
        hf_endpoint: Of Hugging Face, or of a mirror.
        firefox_registry: Of Mozilla's bucket, or of a mirror.
        is_offline: Whether none of them may be asked.
        hf_token: Of a user of Hugging Face; it never gets into a message.
    """

    hf_endpoint: str
    firefox_registry: str
    is_offline: bool = False
    hf_token: str = field(default="", repr=False)

    def find(self, reference: Reference, http: HttpClient) -> RemoteModel:
        """What is published under a reference.

        Raises:
            RegistryError: It cannot be had, or there is no such model.
        """
        if self.is_offline:
            raise OfflineError(
                f"{reference} has to be fetched, and REGARD_OFFLINE forbids it; pull it where "
                "there is a network and copy the folder REGARD_MODEL_CACHE here"
            )
        if reference.source is Source.HUB:
            return hub.find_model(reference, http, self.hf_endpoint, self.hf_token)
        return firefox.find_model(reference, http, self.firefox_registry)


class Puller:
    """Fetches what is not in the cache yet.

    Args:
        cache: Where to.
        registries: Where from.
        http: The client.
        open_bar: Shows how far a file is.
    """

    def __init__(
        self, cache: ModelCache, registries: Registries, http: HttpClient, open_bar: OpenBar
    ) -> None:
        self.cache, self.registries = cache, registries
        self.http, self.open_bar = http, open_bar

    def pull(self, entry: ModelEntry) -> Record:
        """The files of a model, all there and checked.

        A commit that is there already, or all of whose files are pinned, is checked without asking
        anybody. A branch, or a pair of languages, is asked for again: there may be a newer version,
        which then takes its place.

        Raises:
            RegistryError: It cannot be had; what was fetched is kept.
        """
        known = self._complete(entry)
        if known is not None:
            return known
        remote = self.registries.find(entry.reference, self.http).with_pins(entry.pins)
        files = tuple(CachedFile(f.name, f.size, f.sha256) for f in remote.files)
        record = Record(str(entry.reference), str(remote.folder), remote.revision, files)
        folder = self.cache.folder(record)
        lacking = []
        for file in remote.files:
            kept = self._kept(file, folder, record.folder)
            record = record if kept is None else record.with_file(kept)
            lacking += [file] if kept is None else []
        require_space(folder, sum(_still_needed(file, folder) for file in lacking))
        self._note(record, entry.reference)
        for file in lacking:
            record = record.with_file(self._fetch(file, folder, remote))
            self._note(record, entry.reference)
        self.cache.remember(record)
        return record

    def _complete(self, entry: ModelEntry) -> Record | None:
        """What is there of a version that is not to change, where nothing lacks.

        That is a commit, what is pinned from the first file to the last, and offline everything.
        """
        record = self.cache.record(entry.reference)
        if record is None:
            return None
        sums = {file.name: file.sha256 for file in record.files}
        is_as_pinned = all(sums.get(name) == pin for name, pin in entry.pins.items())
        is_commit = COMMIT.fullmatch(entry.reference.revision)
        is_final = self.registries.is_offline or is_commit or sums.keys() <= entry.pins.keys()
        return record if is_final and is_as_pinned and not self.cache.damaged(record) else None

    def _note(self, record: Record, reference: Reference) -> None:
        """Writes down how far a pull is: what lacks can be told, and what is there is trusted.

        A version that is complete stays the one to be served until the new one is.
        """
        known = self.cache.record(reference)
        if known is None or self.cache.missing(known):
            self.cache.remember(record)

    def _kept(self, file: RemoteFile, folder: Path, place: str) -> StoredFile | None:
        """A file that is there and as it was published, or else as it was when it was pulled.

        Any other is thrown away: it will be fetched, and must not be taken for good until then.
        """
        path = folder / file.name
        if not path.is_file():
            return None
        stored = measure(file.name, path)
        records = [record for record in self.cache.records() if record.folder == place]
        sums = {f.sha256 for record in records for f in record.files if f.name == file.name}
        is_published = file.sha256 is not None or file.git_sha1 is not None
        if (is_published or stored.sha256 in sums) and difference(stored, file, path) is None:
            return stored
        path.unlink()
        return None

    def _fetch(self, file: RemoteFile, folder: Path, remote: RemoteModel) -> StoredFile:
        with self.open_bar(file.name, file.size) as report:
            return download(file, folder, self.http, report, remote.token)


def _still_needed(file: RemoteFile, folder: Path) -> int:
    """Bytes that a file will take, less those that are here already."""
    part = folder / (file.name + PART)
    begun = part.stat().st_size if part.is_file() and not file.is_packed else 0
    return max(0, (file.size or 0) - begun)
