"""The SQLite file of the server's state: glossaries, suggestions, and the usage of API keys."""

import asyncio
import fcntl
import logging
import os
import sqlite3
import threading
import time
import weakref
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import ParamSpec, TypeVar

from service.errors import UnavailableError

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

LOG_SECONDS = 60.0
"""Shortest time between two lines of the log with the same reason."""

RETRY_AFTER_SECONDS = 10

MIN_FREE_BYTES = 65_536
"""On a disk with less room, SQLite cannot create the index of its log, which takes 32 KiB."""

FULL = "its disk is full"
DAMAGED = "its file is damaged"
LOCKED = "another program has locked its file"
NOT_WRITABLE = "its folder or file cannot be written"
UNUSABLE = "its file cannot be used"

REASONS = {
    sqlite3.SQLITE_FULL: FULL,
    sqlite3.SQLITE_CORRUPT: DAMAGED,
    sqlite3.SQLITE_NOTADB: DAMAGED,
    sqlite3.SQLITE_BUSY: LOCKED,
    sqlite3.SQLITE_PROTOCOL: LOCKED,
    sqlite3.SQLITE_READONLY: NOT_WRITABLE,
    sqlite3.SQLITE_CANTOPEN: NOT_WRITABLE,
    sqlite3.SQLITE_PERM: NOT_WRITABLE,
}

CHECK_SECONDS = 10.0
UNCHECKED = "its file is being opened"

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

    The file is created and opened at the first use, and opened again after a failure or a removal.
    A damaged file is renamed, and a new one takes its place. The folder must be on a local disk,
    because SQLite's write-ahead log does not work on network file systems.

    Args:
        is_observer: Whether a damaged file is left in its place, and failures are not logged.
    """

    def __init__(self, folder: str, is_observer: bool = False) -> None:
        self.folder = Path(folder).expanduser()
        self.path = self.folder / FILE
        self.is_observer = is_observer
        self.reason = ""  # why the file cannot be used; "" since the last success of a write
        self._logged: dict[str, float] = {}
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
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._thread, lambda: function(*args, **kwargs))

    @contextmanager
    def transaction(self, has_writes: bool = True) -> Iterator[sqlite3.Connection]:
        """Runs the `with` block as a transaction, which blocks its thread.

        An exception undoes the changes. A block without writes waits for no other block.
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
                failure = self.failed(error)
                if self.reason == LOCKED:
                    self._pause_end = time.monotonic() + PAUSE_SECONDS
                raise failure from None
            if has_writes:  # on a full disk, the file can still be read
                self.succeeded()

    def fault(self, is_needed: bool = False) -> str:
        """Returns why the file cannot be written; "" if it can be. Creates a file if needed."""
        try:
            if not is_needed and not self.path.exists():
                return fault_of(self.folder)
            with self.transaction() as connection:
                connection.execute("PRAGMA user_version = 1")  # writes a page
        except UnavailableError:
            pass  # `reason` is set
        except OSError as error:
            self.failed(error)
        return self.reason

    def failed(self, cause: Exception) -> UnavailableError:
        self.reason = reason_of(cause, self.folder)
        if self._is_due(self.reason):
            logger.error(
                "the state in %s cannot be used, because %s (%s); requests that need it get 503",
                self.folder,
                self.reason,
                cause,
            )
        return UnavailableError(
            f"the server cannot use its stored data, because {self.reason}; try again later, or "
            "tell the operator of the server",
            RETRY_AFTER_SECONDS,
        )

    def succeeded(self) -> None:
        if self.reason:
            self.reason = ""
            if self._is_due(""):
                logger.info("the state in %s can be used again", self.folder)

    def _is_due(self, reason: str) -> bool:
        now = time.monotonic()
        is_old = now - self._logged.get(reason, -LOG_SECONDS) >= LOG_SECONDS
        if is_old:
            self._logged[reason] = now
        return is_old and not self.is_observer

    def _current(self) -> sqlite3.Connection:
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
        """Opens the file. Only one process at a time switches it to WAL, or puts it aside."""
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
            self.path, timeout=LOCK_SECONDS, isolation_level=None, check_same_thread=False
        )
        try:
            # With NORMAL, no commit waits for the disk. Every commit survives the end of the
            # process, but the last commits may be lost if the power fails.
            connection.execute("PRAGMA journal_mode = WAL")
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
        # `sqlite3 … .recover` can read the file with its log. A process that still uses the file
        # would write to the index of its log, so this is renamed too.
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
    """Locks a folder; waits for at most LOCK_SECONDS while another process has locked it."""
    descriptor, end = os.open(folder, os.O_RDONLY | os.O_DIRECTORY), time.monotonic() + LOCK_SECONDS
    try:
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > end:
                    raise
            time.sleep(RETRY_SECONDS)
        yield
    finally:
        os.close(descriptor)


def check_pages(connection: sqlite3.Connection) -> None:
    (found,) = connection.execute("PRAGMA quick_check(1)").fetchone()
    if found != "ok":
        error = sqlite3.DatabaseError(" ".join(found.split()))
        error.sqlite_errorcode = sqlite3.SQLITE_CORRUPT
        raise error


def inode_of(path: Path) -> Inode | None:
    try:
        found = path.stat()
    except FileNotFoundError:
        return None
    return found.st_dev, found.st_ino


def stored_bytes(connection: sqlite3.Connection) -> int:
    ((pages,), (free,), (size,)) = (
        connection.execute(f"PRAGMA {name}").fetchone()
        for name in ("page_count", "freelist_count", "page_size")
    )
    return int((pages - free) * size)


class StateWatch:
    """Checks at the start and every CHECK_SECONDS whether the state can be used, and reports it.

    The file is not created unless `is_needed`, because a setting needs the state.
    """

    def __init__(
        self, database: Database, is_needed: bool, report: Callable[[bool], object]
    ) -> None:
        self.database = database
        self.is_needed = is_needed
        self.report = report
        self.fault = UNCHECKED if is_needed else ""  # why the state cannot be used, or ""

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        task = asyncio.create_task(self._run())
        try:
            yield
        finally:
            task.cancel()

    async def _run(self) -> None:
        while True:
            await self.check()
            await asyncio.sleep(CHECK_SECONDS)

    async def check(self) -> None:
        fault = await self.database.call(self.database.fault, self.is_needed)
        if fault and not self.database.reason and fault != self.fault:
            folder = self.database.folder
            logger.warning("the state cannot be stored in %s, because %s", folder, fault)
        self.fault = fault
        self.report(not fault)


def is_damage(error: Exception) -> bool:
    return _known(error) == DAMAGED


def reason_of(error: Exception, folder: Path) -> str:
    if isinstance(error, BlockingIOError) or _known(error) == LOCKED:
        return LOCKED
    return DAMAGED if is_damage(error) else fault_of(folder) or _known(error) or UNUSABLE


def fault_of(folder: Path) -> str:
    """Returns why a file in a folder cannot grow; "" if it can. The folder need not exist."""
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    found = os.statvfs(folder)
    if found.f_bavail * found.f_frsize < MIN_FREE_BYTES:
        return FULL
    return "" if folder.is_dir() and os.access(folder, os.W_OK | os.X_OK) else NOT_WRITABLE


def _known(error: Exception) -> str:
    # The lowest byte of an extended code, such as SQLITE_READONLY_DIRECTORY, is the general code.
    return REASONS.get(getattr(error, "sqlite_errorcode", 0) & 0xFF, "")
