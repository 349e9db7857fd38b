"""The glossaries of the server. A glossary has dictionaries of terms and their translations."""

import asyncio
import json
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from sqlite3 import Connection

from service.errors import SHOWN_CHARS, InvalidRequestError, NotFoundError, RequestTooLargeError
from service.state.database import Database, stored_bytes
from service.text.glossary import Terms

MAX_GLOSSARIES = 1_000
"""Largest number of glossaries of a server. DeepL has the same limit."""

MAX_ENTRIES = 100_000
"""Largest number of entries of a dictionary. Their index takes about 80 MB and a second."""

MAX_BYTES = 512 * 1024 * 1024
"""Size of the stored data from which on nothing is added to the glossaries."""

KEPT_TERMS = 16
KEPT_ENTRIES = 250_000
"""Limits of the `Terms` objects that a process keeps, and of their entries; one is always kept."""


@dataclass(frozen=True, slots=True)
class Dictionary:
    """The terms of a glossary in one direction.

    Languages are codes without a region. `entries` maps each source term to its target term.
    """

    source: str
    target: str
    entries: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class DictionaryInfo:
    """A dictionary without its entries."""

    source_lang: str
    target_lang: str
    entry_count: int


@dataclass(frozen=True, slots=True)
class Glossary:
    """A glossary without its entries. `creation_time` is in ISO 8601."""

    glossary_id: str
    name: str
    dictionaries: tuple[DictionaryInfo, ...]
    creation_time: str


class GlossaryStore:
    """Stores glossaries, which all API keys share.

    The methods block their thread, except `terms`. Call them with `Database.call`.
    """

    def __init__(self, database: Database) -> None:
        self.database = database
        self._terms: dict[tuple[str, ...], tuple[Terms, int]] = {}
        self._indexing = asyncio.Lock()

    def create(self, name: str, dictionaries: Sequence[Dictionary]) -> Glossary:
        """Stores a new glossary. Of equal source terms in equal languages, the last one is kept."""
        merged: dict[tuple[str, str], dict[str, str]] = {}
        for each in dictionaries:
            merged.setdefault((each.source, each.target), {}).update(each.entries)
        rows = [_row(Dictionary(*direction, entries)) for direction, entries in merged.items()]
        with self.database.transaction() as connection:
            (number,) = connection.execute("SELECT COUNT(*) FROM glossaries").fetchone()
            if number >= MAX_GLOSSARIES:
                raise InvalidRequestError(
                    "Too many glossaries",
                    details=f"the server has {number}, which is the limit; delete one",
                )
            glossary = str(uuid.uuid4())
            created = datetime.now(UTC).isoformat(timespec="milliseconds")
            connection.execute(
                "INSERT INTO glossaries (id, name, created) VALUES (?, ?, ?)",
                (glossary, name, created.replace("+00:00", "Z")),
            )
            for row in rows:
                _write(connection, glossary, row)
            return _read(connection, glossary)

    def all(self) -> list[Glossary]:
        with self.database.transaction(has_writes=False) as connection:
            ids = connection.execute("SELECT id FROM glossaries ORDER BY created, rowid").fetchall()
            return [_read(connection, glossary) for (glossary,) in ids]

    def get(self, glossary: str) -> Glossary:
        with self.database.transaction(has_writes=False) as connection:
            return _read(connection, glossary)

    def entries(self, glossary: str, source: str, target: str) -> dict[str, str]:
        with self.database.transaction(has_writes=False) as connection:
            _read(connection, glossary)
            return _entries(connection, glossary, source, target)

    def change(
        self, glossary: str, name: str | None, dictionaries: Sequence[Dictionary]
    ) -> Glossary:
        with self.database.transaction() as connection:
            old = _read(connection, glossary)
            known = {(each.source_lang, each.target_lang) for each in old.dictionaries}
            if name is not None:
                connection.execute("UPDATE glossaries SET name = ? WHERE id = ?", (name, glossary))
            for each in dictionaries:
                direction = each.source, each.target
                stored = _entries(connection, glossary, *direction) if direction in known else {}
                merged = Dictionary(*direction, {**stored, **each.entries})
                _write(connection, glossary, _row(merged))
                known.add(direction)
            return _read(connection, glossary)

    def replace(self, glossary: str, dictionary: Dictionary) -> DictionaryInfo:
        row = _row(dictionary)
        with self.database.transaction() as connection:
            _read(connection, glossary)
            _write(connection, glossary, row)
        return DictionaryInfo(dictionary.source, dictionary.target, len(dictionary.entries))

    def remove(self, glossary: str) -> None:
        with self.database.transaction() as connection:
            _read(connection, glossary)
            connection.execute("DELETE FROM glossaries WHERE id = ?", (glossary,))

    def remove_dictionary(self, glossary: str, source: str, target: str) -> None:
        with self.database.transaction() as connection:
            _read(connection, glossary)
            deleted = connection.execute(
                "DELETE FROM dictionaries WHERE (glossary, source, target) = (?, ?, ?)",
                (glossary, source, target),
            )
            if not deleted.rowcount:
                raise _no_dictionary(source, target)

    def sources(self, glossaries: Sequence[str], target: str) -> list[str]:
        """Returns the source languages of all dictionaries with a target language."""
        found = [each for glossary in glossaries for each in self.get(glossary).dictionaries]
        return sorted({each.source_lang for each in found if each.target_lang == target})

    async def terms(self, glossaries: Sequence[str], source: str, target: str) -> Terms:
        """Returns the terms that one or more glossaries have for two languages.

        If several glossaries have the same source term, the first one in `glossaries` is used.
        """
        wanted = glossaries, source, target
        rows = await self.database.call(self._dictionaries, "version", *wanted)
        key = tuple(version for (version,) in rows)
        if key not in self._terms:
            async with self._indexing:  # one index at a time, and none twice
                rows = await self.database.call(self._dictionaries, "version, entries", *wanted)
                key = tuple(version for version, _ in rows)
                if key not in self._terms:
                    entries = [entries for _, entries in rows]
                    self._keep(key, *await asyncio.to_thread(_index, entries))
        self._terms[key] = self._terms.pop(key)  # it is now the last one to be dropped
        return self._terms[key][0]

    def _dictionaries(
        self, columns: str, glossaries: Sequence[str], source: str, target: str
    ) -> list[tuple[str, ...]]:
        query = f"SELECT {columns} FROM dictionaries WHERE (glossary, source, target) = (?, ?, ?)"
        rows: list[tuple[str, ...]] = []
        with self.database.transaction(has_writes=False) as connection:
            for glossary in glossaries:
                _read(connection, glossary)
                rows += connection.execute(query, (glossary, source, target)).fetchall()
        if not rows:
            raise InvalidRequestError(
                f"No dictionary found for language pair {source}-{target} in glossary "
                f"{', '.join(glossaries)}",
                details="store a dictionary for the two languages, or send no glossary",
            )
        return rows

    def _keep(self, versions: tuple[str, ...], terms: Terms, number: int) -> None:
        self._terms[versions] = terms, number
        while len(self._terms) > KEPT_TERMS or (
            len(self._terms) > 1 and sum(size for _, size in self._terms.values()) > KEPT_ENTRIES
        ):
            del self._terms[next(iter(self._terms))]


def _index(dictionaries: Sequence[str]) -> tuple[Terms, int]:
    entries: dict[str, str] = {}
    for each in reversed(dictionaries):
        entries |= json.loads(each)
    return Terms(entries), len(entries)


def _read(connection: Connection, glossary: str) -> Glossary:
    found = connection.execute(
        "SELECT name, created FROM glossaries WHERE id = ?", (glossary,)
    ).fetchone()
    if found is None:
        details = f"no glossary has the id {glossary[:SHOWN_CHARS]}"
        raise NotFoundError("Glossary not found", details=details)
    rows = connection.execute(
        "SELECT source, target, number FROM dictionaries WHERE glossary = ? ORDER BY rowid",
        (glossary,),
    )
    name, created = found
    return Glossary(glossary, name, tuple(DictionaryInfo(*row) for row in rows), created)


def _entries(connection: Connection, glossary: str, source: str, target: str) -> dict[str, str]:
    found = connection.execute(
        "SELECT entries FROM dictionaries WHERE (glossary, source, target) = (?, ?, ?)",
        (glossary, source, target),
    ).fetchone()
    if found is None:
        raise _no_dictionary(source, target)
    entries: dict[str, str] = json.loads(found[0])
    return entries


def _row(dictionary: Dictionary) -> tuple[str, str, str, int, str]:
    source, target, number = dictionary.source, dictionary.target, len(dictionary.entries)
    if number > MAX_ENTRIES:
        raise RequestTooLargeError(
            f"the dictionary from {source} to {target} would have {number} entries; the limit is "
            f"{MAX_ENTRIES}, so store the others in another glossary"
        )
    entries = json.dumps(dict(dictionary.entries), ensure_ascii=False)
    return source, target, str(uuid.uuid4()), number, entries


def _write(connection: Connection, glossary: str, row: tuple[str, str, str, int, str]) -> None:
    if (size := stored_bytes(connection)) > MAX_BYTES:
        raise InvalidRequestError(
            "Too many glossaries",
            details=f"the stored data has {size} bytes, and the limit is {MAX_BYTES}; delete a "
            "glossary",
        )
    connection.execute(
        "INSERT INTO dictionaries (glossary, source, target, version, number, entries) "
        "VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (glossary, source, target) DO UPDATE SET "
        "(version, number, entries) = (excluded.version, excluded.number, excluded.entries)",
        (glossary, *row),
    )


def _no_dictionary(source: str, target: str) -> NotFoundError:
    return NotFoundError(
        f"No dictionary found for language pair {source}-{target}",
        details="GET /v3/glossaries lists the dictionaries of each glossary",
    )
