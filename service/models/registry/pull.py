"""Pulls a model: fetches the files of its reference into the cache."""

from dataclasses import dataclass, replace
from pathlib import Path

from service.models.registry.cache import CachedFile, ModelCache, Record
from service.models.registry.files import PublishedFile, StoredFile, difference, measure
from service.models.registry.manifest import ModelEntry
from service.models.registry.references import COMMIT, Reference, Source
from service.models.registry.sources.download import disk_errors
from service.models.registry.sources.firefox import Firefox, OpenBar
from service.models.registry.sources.http_client import HttpClient
from service.models.registry.sources.hub import Hub


@dataclass(frozen=True, slots=True)
class Registries:
    """The registries that publish models.

    Attributes:
        hf_endpoint: Address of Hugging Face or of a mirror.
        firefox_registry: Address of Mozilla's storage bucket or of a mirror.
        is_offline: Whether requests to registries are forbidden.
    """

    hf_endpoint: str
    firefox_registry: str
    is_offline: bool = False


class Puller:
    """Fetches the missing files of models into the cache.

    Args:
        cache: Cache that receives the files.
        registries: Registries that publish the files.
        http: Client that sends the requests.
        open_bar: Opens the display of one file's progress.
    """

    def __init__(
        self, cache: ModelCache, registries: Registries, http: HttpClient, open_bar: OpenBar
    ) -> None:
        is_offline = registries.is_offline
        self.cache = cache
        self.hub = Hub(registries.hf_endpoint, http, is_offline)
        self.firefox = Firefox(registries.firefox_registry, http, open_bar, is_offline)

    def pull(self, entry: ModelEntry) -> Record:
        """Fetches the missing files of a model, and returns its record.

        When this method returns, all files are in the cache and have been checked. No request is
        sent for a complete model whose version cannot change (see `_complete`). Any other model is
        looked up in the registry again, and a newer version replaces the recorded version.
        """
        registry = self.hub if entry.reference.source is Source.HUB else self.firefox
        known = self._complete(entry, registry.is_offline)
        if known is not None:
            return known
        remote = registry.find(entry.reference).with_pins(entry.pins)
        files = tuple(CachedFile(f.name, f.size, f.sha256) for f in remote.files)
        record = Record(str(entry.reference), str(remote.folder), remote.revision, files)
        folder = self.cache.folder(record)
        missing = []
        for file in remote.files:
            with disk_errors(folder / file.name):
                kept = self._kept(file, folder, record.folder)
            record = record if kept is None else record.with_file(kept)
            missing += [file] if kept is None else []
        registry.require_space(missing, remote, folder)
        self._save_progress(record, entry.reference)
        for file in missing:
            record = record.with_file(registry.fetch(file, remote, folder))
            self._save_progress(record, entry.reference)
        self._keep_commit(entry.reference, record)
        self.cache.save(record)
        return record

    def _complete(self, entry: ModelEntry, is_offline: bool) -> Record | None:
        """Returns the record of a complete model whose version cannot change; None for others.

        The version cannot change if the reference names a commit, if every file is pinned, or if
        requests to registries are forbidden. The files must have the pinned checksums.
        """
        record = self.cache.record(entry.reference)
        if record is None:
            return None
        sums = {file.name: file.sha256 for file in record.files}
        is_as_pinned = all(sums.get(name) == pin for name, pin in entry.pins.items())
        is_commit = COMMIT.fullmatch(entry.reference.revision)
        is_final = is_offline or is_commit or sums.keys() <= entry.pins.keys()
        return record if is_final and is_as_pinned and not self.cache.damaged(record) else None

    def _keep_commit(self, reference: Reference, newer: Record) -> None:
        """Gives an older commit a record of its own, because a manifest may name this commit."""
        known = self.cache.record(reference)
        if known and known.revision != newer.revision and COMMIT.fullmatch(known.revision):
            commit = replace(reference, revision=known.revision)
            self.cache.save(replace(known, reference=str(commit)))

    def _save_progress(self, record: Record, reference: Reference) -> None:
        """Records which files are on disk, unless an older version of the model is complete.

        In that case, the older version is served until the new version is complete.
        """
        known = self.cache.record(reference)
        if known is None or self.cache.missing(known):
            self.cache.save(record)

    def _kept(self, file: PublishedFile, folder: Path, folder_name: str) -> StoredFile | None:
        """Returns the cached file that equals the published file; None if there is no such file.

        If no checksum is published, the cached file must have the checksum of an earlier pull. A
        file that differs is deleted. If it stayed, `ModelCache.missing` might count the file as
        present, because that method compares only sizes.
        """
        path = folder / file.name
        if not path.is_file():
            return None
        stored = measure(file.name, path)
        records = [record for record in self.cache.records() if record.folder == folder_name]
        sums = {f.sha256 for record in records for f in record.files if f.name == file.name}
        is_published = file.sha256 is not None or file.git_sha1 is not None
        if (is_published or stored.sha256 in sums) and difference(stored, file, path) is None:
            return stored
        path.unlink()
        return None
