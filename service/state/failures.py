"""Failures of the state: their reasons, their lines in the log, and the errors of requests."""

import logging
import os
import sqlite3
import time
from pathlib import Path

from service.errors import UnavailableError

logger = logging.getLogger("regard.state")

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


class Failures:
    """Logs the failures of a state, and makes the errors of the requests that need it.

    Args:
        folder: Folder of the state.
        is_logged: Whether failures are logged.

    Attributes:
        reason: Why the state cannot be used; "" since the last success of a write.
    """

    def __init__(self, folder: Path, is_logged: bool) -> None:
        self.folder = folder
        self.is_logged = is_logged
        self.reason = ""
        self._logged: dict[str, float] = {}

    def error(self, cause: Exception) -> UnavailableError:
        """Returns the error of a request, and logs its cause if this was not done lately.

        The error does not name the folder, because clients read it.
        """
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

    def end(self) -> None:
        """Notes that the state can be written."""
        if self.reason:
            self.reason = ""
            if self._is_due(""):
                logger.info("the state in %s can be used again", self.folder)

    def _is_due(self, reason: str) -> bool:
        now = time.monotonic()
        is_due = self.is_logged and now - self._logged.get(reason, -LOG_SECONDS) >= LOG_SECONDS
        if is_due:
            self._logged[reason] = now
        return is_due


def is_damage(error: Exception) -> bool:
    """Returns whether an error of SQLite means that a file is damaged."""
    return _known(error) == DAMAGED


def is_locked(error: Exception) -> bool:
    """Returns whether an error means that another process has locked a file."""
    return isinstance(error, BlockingIOError) or _known(error) == LOCKED


def reason_of(error: Exception, folder: Path) -> str:
    """Returns why a state cannot be used."""
    if is_locked(error):
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
