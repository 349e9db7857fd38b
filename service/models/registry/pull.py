"""Pulls a model: fetches the files of its reference into the cache."""

from dataclasses import replace
from pathlib import Path

from service.models.registry.argos import Argos
from service.models.registry.cache import ModelCache, Record
from service.models.registry.download import HttpClient, disk_errors
from service.models.registry.files import ModelFile, difference, measure, with_pins
from service.models.registry.firefox import Firefox
from service.models.registry.hub import Hub
from service.models.registry.references import COMMIT, ModelEntry, Source
from service.settings import Settings


class Puller:
    """Fetches the missing files of models into the cache."""

    def __init__(self, cache: ModelCache, settings: Settings, http: HttpClient) -> None:
        self.cache = cache
        self.hub = Hub(settings.hf_endpoint, http, settings.offline)
        self.firefox = Firefox(settings.firefox_registry, http, settings.offline)
        self.argos = Argos(settings.argos_index, http, settings.offline)

    def pull(self, entry: ModelEntry) -> Record:
        """Fetches and checks the missing files of a model, and returns its record.

        No request is sent for a complete model whose version cannot change. Any other model is
        looked up in the registry again, and a newer version replaces the old one.
        """
        registry = self.hub if entry.source is Source.HUB else self.firefox
        known = self._complete(entry, registry.is_offline)
        if known is not None:
            return known
        if entry.source is Source.ARGOS:
            return self._pull_package(entry)
        record = registry.find(entry)
        record = replace(record, files=with_pins(record.files, entry.pins))
        folder = self.cache.folder(record)
        missing = []
        for file in record.files:
            with disk_errors(folder / file.name):
                kept = self._kept(file, folder, record.folder)
            if kept is None:
                missing.append(file)
            else:
                record = record.with_file(kept)
        registry.require_space(missing, record, folder)
        self._save_progress(record, entry)
        for file in missing:
            record = record.with_file(registry.fetch(file, record, folder))
            self._save_progress(record, entry)
        self._keep_commit(entry, record)
        self.cache.save(record)
        return record

    def _pull_package(self, entry: ModelEntry) -> Record:
        """Fetches and unpacks a package, unless its version is on disk; no sums are published."""
        record, known = self.argos.find(entry), self.cache.record(entry)
        if known and known.revision == record.revision and not self.cache.damaged(known):
            return known
        files = self.argos.fetch(record, self.cache.folder(record))
        self.cache.save(replace(record, files=files))
        return replace(record, files=files)

    def _complete(self, entry: ModelEntry, is_offline: bool) -> Record | None:
        """Returns the record of a complete model whose version cannot change; None for others.

        It cannot change if the reference names a commit, if every file is pinned, or offline.
        """
        record = self.cache.record(entry)
        if record is None:
            return None
        sums = {file.name: file.sha256 for file in record.files}
        is_as_pinned = all(sums.get(name) == pin for name, pin in entry.pins.items())
        is_commit = COMMIT.fullmatch(entry.revision)
        is_final = is_offline or is_commit or sums.keys() <= entry.pins.keys()
        return record if is_final and is_as_pinned and not self.cache.damaged(record) else None

    def _keep_commit(self, entry: ModelEntry, newer: Record) -> None:
        """Gives an older commit a record of its own, because a manifest may name this commit."""
        known = self.cache.record(entry)
        if known and known.revision != newer.revision and COMMIT.fullmatch(known.revision):
            commit = replace(entry, revision=known.revision)
            self.cache.save(replace(known, reference=str(commit)))

    def _save_progress(self, record: Record, entry: ModelEntry) -> None:
        """Records which files are on disk, unless an older, complete version is still served."""
        known = self.cache.record(entry)
        if known is None or self.cache.missing(known):
            self.cache.save(record)

    def _kept(self, file: ModelFile, folder: Path, folder_name: str) -> ModelFile | None:
        """Returns the cached file that equals the published file; None if there is no such file.

        If no checksum is published, the cached file must have the checksum of an earlier pull. A
        file that differs is deleted, because `ModelCache.missing` compares only sizes.
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
