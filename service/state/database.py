"""The SQLite file of the server's state: glossaries, suggestions, and the usage of API keys."""

import asyncio
import fcntl
import logging
import os
import sqlite3
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import ParamSpec, TypeVar

from service.errors import UnavailableError
from service.state.failures import LOCKED, Failures, fault_of, is_damage, is_locked

logger = logging.getLogger("regard.state")

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")
Inode = tuple[int, int]

FILE = "regard.sqlite3"
"""Name of the file in the folder of the setting REGARD_STATE."""

LOG, LOG_INDEX = "-wal", "-shm"
"""Ends of the names of SQLite's write-ahead log and its index."""

LOCK_SECONDS = 5.0
"""Longest time that a transaction waits while another process writes to the file."""

RETRY_SECONDS = 0.01

PAUSE_SECONDS = 1.0
"""Time after a LOCK_SECONDS in vain, in which further transactions fail without waiting."""

CHECKED_BYTES = 64 * 1024 * 1024
"""Largest size of a file whose pages are all checked when it is opened; this takes up to 0.2 s."""

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

    The file is created and opened at the first use, and opened again after a failure, or after it
    was removed. A damaged file is renamed, and a new one takes its place. The folder must be on a
    disk of this machine, because SQLite's write-ahead log does not work on network file systems.

    Args:
        folder: Folder of the file. The folder is created with the file.
        is_observer: Whether a damaged file is left in its place, and failures are not logged.
    """

    def __init__(self, folder: str, is_observer: bool = False) -> None:
        self.folder = Path(folder).expanduser()
        self.path = self.folder / FILE
        self.is_observer = is_observer
        self.failures = Failures(self.folder, not is_observer)
        # The thread is the state's own, so that a file that is locked delays no other work.
        self._thread = ThreadPoolExecutor(1, "regard-state")
        self._lock = threading.Lock()
        self._connection: sqlite3.Connection | None = None
        self._inode: Inode | None = None
        self._damaged: Inode | None = None
        self._pause_end = 0.0

    async def call(
        self,
        function: Callable[Arguments, Result],
        *args: Arguments.args,
        **kwargs: Arguments.kwargs,
    ) -> Result:
        """Runs a function that uses the file, in the thread of the state."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._thread, lambda: function(*args, **kwargs))

    @contextmanager
    def transaction(self, has_writes: bool = True) -> Iterator[sqlite3.Connection]:
        """Runs a transaction, which ends with the `with` block.

        If the block raises an exception, the changes of the block are undone. The method blocks its
        thread, so do not call it in the thread of the event loop.

        Args:
            has_writes: Whether the block writes. A block that only reads waits for no other block.
        """
        with self._lock:
            try:
                connection = self._current()
                connection.execute("BEGIN IMMEDIATE" if has_writes else "BEGIN")
                with connection:
                    yield connection
            except (sqlite3.Error, OSError) as error:
                if is_damage(error) and not self.is_observer:
                    self._damaged = self._inode
                self._disconnect()
                failure = self.failures.error(error)
                if self.failures.reason == LOCKED:
                    self._pause_end = time.monotonic() + PAUSE_SECONDS
                raise failure from None
            if has_writes:  # on a full disk, the file can still be read
                self.failures.end()

    def fault(self, is_needed: bool = False) -> str:
        """Returns the reason why the file cannot be used; "" if it can be used.

        The method writes to the file. A file that does not exist is created only if it is needed.
        """
        try:
            if not is_needed and not self.path.exists():
                return fault_of(self.folder)
            with self.transaction() as connection:
                connection.execute("PRAGMA user_version = 1")  # writes a page
        except UnavailableError:
            pass  # `failures` has the reason
        except OSError as error:
            self.failures.error(error)
        return self.failures.reason

    def _current(self) -> sqlite3.Connection:
        """Returns the connection to the file that is in its place now."""
        if time.monotonic() < self._pause_end:
            raise BlockingIOError("it was locked a moment ago")
        if self._connection is not None and inode_of(self.path) != self._inode:
            logger.warning("the file of the state in %s was removed or replaced", self.folder)
            self._disconnect()
        return self._connection or self._open()

    def _disconnect(self) -> None:
        if self._connection is not None:
            self._close()
        self._connection = None

    def _open(self) -> sqlite3.Connection:
        """Opens the file. A damaged file is put aside, unless this object is an observer.

        Only one process at a time opens the file or puts it aside. A process that puts a damaged
        file aside can therefore not meet the new file of another.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        with locked(self.folder):
            if (found := inode_of(self.path)) is None:
                # SQLite would take the index of a removed file for the index of the new one.
                for end in (LOG, LOG_INDEX):
                    Path(f"{self.path}{end}").unlink(missing_ok=True)
            elif found == self._damaged:
                self._put_aside("a page is malformed")
            try:
                connection = self._connect()
            except sqlite3.DatabaseError as error:
                if self.is_observer or not is_damage(error):
                    raise
                self._put_aside(str(error))
                connection = self._connect()
            self._connection, self._inode = connection, inode_of(self.path)
            self._damaged = None
            self._close = weakref.finalize(self, connection.close)
        return connection

    def _connect(self) -> sqlite3.Connection:
        # With isolation level None, only `transaction` begins transactions. The threads may share
        # the connection because `_lock` admits one thread at a time.
        connection = sqlite3.connect(
            self.path, LOCK_SECONDS, isolation_level=None, check_same_thread=False
        )
        try:
            # With NORMAL, no commit waits for the disk. Every commit survives the end of the
            # process, but the last commits may be lost if the power fails.
            retry(lambda: connection.execute("PRAGMA journal_mode = WAL"))
            connection.execute("PRAGMA synchronous = NORMAL")
            connection.execute("PRAGMA foreign_keys = ON")
            if self.path.stat().st_size <= CHECKED_BYTES:
                check_pages(connection)
            connection.executescript(TABLES)
        except BaseException:
            connection.close()
            raise
        return connection

    def _put_aside(self, reason: str) -> None:
        """Renames the damaged file with its log, which `sqlite3 … .recover` can read.

        The index of the log is renamed too, because a process that still uses the damaged file
        would write to it. The new file needs an index of its own.
        """
        time_of_day = datetime.now(UTC).strftime("%Y-%m-%dT%H-%M-%S.%f")
        aside = f"{self.path}.corrupt-{time_of_day}"
        self.path.rename(aside)
        for end in (LOG, LOG_INDEX):
            if os.path.exists(f"{self.path}{end}"):
                os.rename(f"{self.path}{end}", f"{aside}{end}")
        logger.error(
            "the file of the state is damaged (%s) and was renamed to %s; a new file begins "
            "without glossaries, without suggestions and with no used characters",
            reason,
            aside,
        )


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Waits for the lock of a folder, and holds it until the `with` block ends."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        retry(lambda: fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB))
        yield
    finally:
        os.close(descriptor)


def retry(attempt: Callable[[], object]) -> None:
    """Calls a function again for up to LOCK_SECONDS while a lock of another process stops it.

    While another process switches a file to the write-ahead log, SQLite refuses the same switch at
    once, whatever time limit the connection has.
    """
    end = time.monotonic() + LOCK_SECONDS
    while True:
        try:
            attempt()
            return
        except (sqlite3.Error, OSError) as error:
            if not is_locked(error) or time.monotonic() > end:
                raise
        time.sleep(RETRY_SECONDS)


def check_pages(connection: sqlite3.Connection) -> None:
    """Checks the pages of a file."""
    (found,) = connection.execute("PRAGMA quick_check(1)").fetchone()
    if found != "ok":
        error = sqlite3.DatabaseError(" ".join(found.split()))
        error.sqlite_errorcode = sqlite3.SQLITE_CORRUPT
        raise error


def inode_of(path: Path) -> Inode | None:
    """Returns the device and the inode of a file; None if there is no such file."""
    try:
        found = path.stat()
    except FileNotFoundError:
        return None
    return found.st_dev, found.st_ino


def stored_bytes(connection: sqlite3.Connection) -> int:
    """Returns the size of everything that the file stores."""
    ((pages,), (free,), (size,)) = (
        connection.execute(f"PRAGMA {name}").fetchone()
        for name in ("page_count", "freelist_count", "page_size")
    )
    return int((pages - free) * size)
