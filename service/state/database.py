"""The SQLite file of the server's state: glossaries, suggestions, and the usage of API keys."""

import sqlite3
import threading
import time
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from service.errors import InternalError

FILE = "regard.sqlite3"
"""Name of the file in the folder of the setting REGARD_STATE."""

LOCK_SECONDS = 10.0
"""Longest time that a transaction waits while another process writes to the file."""

RETRY_SECONDS = 0.01

TABLES = """
CREATE TABLE IF NOT EXISTS usage (
    account TEXT NOT NULL,
    month TEXT NOT NULL,  -- such as 2026-11
    characters INTEGER NOT NULL,
    PRIMARY KEY (account, month)
);
CREATE TABLE IF NOT EXISTS suggestions (
    id INTEGER PRIMARY KEY,
    created INTEGER NOT NULL,  -- Unix seconds
    q TEXT NOT NULL,
    s TEXT NOT NULL,
    source TEXT NOT NULL,
    target TEXT NOT NULL
);
CREATE TABLE IF NOT EXISTS glossaries (
    id TEXT PRIMARY KEY,
    name TEXT NOT NULL,
    created TEXT NOT NULL
);
CREATE TABLE IF NOT EXISTS dictionaries (
    glossary TEXT NOT NULL REFERENCES glossaries (id) ON DELETE CASCADE,
    source TEXT NOT NULL,
    target TEXT NOT NULL,
    version TEXT NOT NULL,  -- changes with the entries
    number INTEGER NOT NULL,
    entries TEXT NOT NULL,  -- a JSON object
    PRIMARY KEY (glossary, source, target)
);
"""


class Database:
    """A SQLite file that several processes and threads use at the same time.

    The file is created and opened at the first use. The folder must be on a disk of this machine,
    because SQLite's write-ahead log does not work on network file systems.

    Args:
        folder: Folder of the file. The folder is created with the file.
    """

    def __init__(self, folder: str) -> None:
        self.folder = Path(folder).expanduser()
        self._lock = threading.Lock()
        self._connection: sqlite3.Connection | None = None

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """Runs a transaction, which ends with the `with` block.

        If the block raises an exception, the changes of the block are undone. The method blocks its
        thread, so do not call it in the thread of the event loop.

        Raises:
            InternalError: The file cannot be read or written.
        """
        try:
            with self._lock:
                connection = self._connection or self._open()
                connection.execute("BEGIN IMMEDIATE")
                with connection:
                    yield connection
        except (sqlite3.Error, OSError) as error:
            raise InternalError(
                f"the state in {self.folder} cannot be used ({error}); "
                "REGARD_STATE must name a folder that the server may write to"
            ) from None

    def _open(self) -> sqlite3.Connection:
        self.folder.mkdir(parents=True, exist_ok=True)
        # With isolation level None, only `transaction` begins transactions. The threads may share
        # the connection because `_lock` admits one thread at a time.
        connection = sqlite3.connect(
            self.folder / FILE, LOCK_SECONDS, isolation_level=None, check_same_thread=False
        )
        try:
            # With NORMAL, no commit waits for the disk. Every commit survives the end of the
            # process, but the last commits may be lost if the power fails.
            use_wal(connection)
            connection.execute("PRAGMA synchronous = NORMAL")
            connection.execute("PRAGMA foreign_keys = ON")
            connection.executescript(TABLES)
        except sqlite3.Error:
            connection.close()
            raise
        weakref.finalize(self, connection.close)
        self._connection = connection
        return connection


def use_wal(connection: sqlite3.Connection) -> None:
    """Switches a new file to the write-ahead log.

    While another process switches the same file, SQLite refuses the switch at once, whatever time
    limit the connection has. The switch is therefore tried again for up to LOCK_SECONDS.

    Raises:
        sqlite3.Error: The file cannot be used.
    """
    end = time.monotonic() + LOCK_SECONDS
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_BUSY or time.monotonic() > end:
                raise
        time.sleep(RETRY_SECONDS)
