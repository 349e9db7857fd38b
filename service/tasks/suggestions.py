"""Stores the better translations that users suggest, in a SQLite file."""

import sqlite3
import time
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

LOCK_SECONDS = 10.0
"""Time that a write waits for another process that writes to the file."""

TABLE = """
CREATE TABLE IF NOT EXISTS suggestions (
    id INTEGER PRIMARY KEY,
    created INTEGER NOT NULL,  -- Unix seconds
    q TEXT NOT NULL,
    s TEXT NOT NULL,
    source TEXT NOT NULL,
    target TEXT NOT NULL
)
"""


@dataclass(frozen=True, slots=True)
class Suggestion:
    """A better translation of a text.

    Attributes:
        q: The text.
        s: The suggested translation.
        source: Code of the text's language, or `auto`.
        target: Code of the translation's language.
    """

    q: str
    s: str
    source: str
    target: str


class SuggestionStore:
    """A SQLite file of suggestions, which several processes may write at the same time.

    Each operation opens the file, so an object of this class holds no resources.

    Args:
        path: The file; it is created by the first suggestion.
    """

    def __init__(self, path: str) -> None:
        self.path = Path(path).expanduser()

    def add(self, suggestion: Suggestion) -> None:
        """Appends a suggestion. It blocks, so call it in a thread.

        Raises:
            sqlite3.Error: The file cannot be written.
        """
        with closing(self._open()) as connection, connection:
            connection.execute(
                "INSERT INTO suggestions (created, q, s, source, target) VALUES (?, ?, ?, ?, ?)",
                (
                    int(time.time()),
                    suggestion.q,
                    suggestion.s,
                    suggestion.source,
                    suggestion.target,
                ),
            )

    def _open(self) -> sqlite3.Connection:
        """Returns a connection to the file, which has the table."""
        connection = sqlite3.connect(self.path, timeout=LOCK_SECONDS)
        try:
            connection.execute(TABLE)
        except sqlite3.Error:
            connection.close()
            raise
        return connection
