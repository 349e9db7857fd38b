"""The file of the state: each kind of failure, its line in the log, and files put aside."""

import asyncio
import errno
import logging
import multiprocessing
import os
import sqlite3
import threading
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace

import pytest

from service.errors import UnavailableError
from service.state import database as database_module
from service.state.database import (
    DAMAGED,
    FILE,
    FULL,
    LOCKED,
    NOT_WRITABLE,
    UNUSABLE,
    Database,
    StateWatch,
    reason_of,
)
from service.state.quota import Quota


def count(database: Database, number: int = 1) -> int:
    return Quota(database, 10**9).add("a", "2026-11", number)


def asides(folder: Path) -> list[str]:
    return sorted(each.name for each in folder.glob("*corrupt*") if each.name[-4:-3] != "-")


def error_of(code: int) -> sqlite3.Error:
    error = sqlite3.OperationalError("disk I/O error")
    error.sqlite_errorcode = code
    return error


def spoil(folder: Path) -> None:
    """Overwrites the pages of a file that processes have opened."""
    with (folder / FILE).open("r+b") as file:
        file.write(b"x" * 4096 * 20)
    with (folder / f"{FILE}-wal").open("r+b") as file:
        file.truncate()


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database_module, "LOCK_SECONDS", 0.0)


def lock(folder: Path, database: Database) -> Callable[[], object]:
    count(database)
    other = sqlite3.connect(folder / FILE, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    return other.close


def put_a_folder_in_place(folder: Path, _: Database) -> Callable[[], object]:
    (folder / FILE).mkdir()
    return (folder / FILE).rmdir


def put_a_file_in_place(folder: Path, database: Database) -> Callable[[], object]:
    database.path = folder / "file" / FILE
    database.folder = folder / "file"
    database.folder.touch()
    return database.folder.unlink


@pytest.mark.parametrize(
    ("break_it", "reason"),
    [(lock, LOCKED), (put_a_folder_in_place, NOT_WRITABLE), (put_a_file_in_place, NOT_WRITABLE)],
)
def test_failing_state_is_told_without_its_path_and_works_again(
    tmp_path: Path,
    break_it: Callable[[Path, Database], Callable[[], object]],
    reason: str,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(database_module, "PAUSE_SECONDS", 0.0)
    caplog.set_level(logging.INFO)
    database = Database(str(tmp_path))
    repair = break_it(tmp_path, database)
    for _ in range(3):
        with pytest.raises(UnavailableError, match=reason) as caught:
            count(database)
    assert str(tmp_path) not in str(caught.value)
    assert caught.value.retry_after_seconds
    assert database.fault(is_needed=True) == reason
    (record,) = caplog.records
    assert record.levelname == "ERROR"
    assert str(tmp_path) in record.getMessage()
    assert reason in record.getMessage()
    repair()
    count(database)
    assert "can be used again" in caplog.records[-1].getMessage()
    assert database.fault() == ""


def test_full_disk_is_no_damage(tmp_path: Path) -> None:
    database = Database(str(tmp_path))
    count(database)
    assert database._connection is not None
    database._connection.execute("PRAGMA max_page_count = 1")
    with pytest.raises(UnavailableError, match=FULL), database.transaction() as connection:
        connection.execute("INSERT INTO glossaries VALUES ('a', ?, '')", ("x" * 100_000,))
    assert database.reason == FULL
    assert count(database, 0) == 1  # reads it
    assert database.reason == FULL
    assert (count(database), database.reason) == (1, "")
    assert asides(tmp_path) == []


def test_failure_is_logged_once_a_minute(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    now = 1000.0
    monkeypatch.setattr(database_module, "time", SimpleNamespace(monotonic=lambda: now))
    found = Database(str(tmp_path))
    for seconds in (0, 0, 59, 60, 61):
        now = 1000.0 + seconds
        found.failed(error_of(sqlite3.SQLITE_FULL))
    found.failed(error_of(sqlite3.SQLITE_READONLY))  # another reason has a line of its own
    assert len(caplog.records) == 3
    caplog.set_level(logging.INFO)
    for _ in range(3):  # a full disk has room for small writes only
        found.succeeded()
        found.failed(error_of(sqlite3.SQLITE_FULL))
    assert len(caplog.records) == 4


@pytest.mark.parametrize(
    ("error", "free", "reason"),
    [
        (error_of(sqlite3.SQLITE_IOERR), 0, FULL),
        (error_of(sqlite3.SQLITE_CANTOPEN), 0, FULL),
        (OSError(errno.ENOSPC, "No space left on device"), 0, FULL),
        (error_of(sqlite3.SQLITE_CORRUPT), 0, DAMAGED),
        (error_of(sqlite3.SQLITE_NOTADB), 1, DAMAGED),
        (error_of(sqlite3.SQLITE_BUSY), 0, LOCKED),
        (error_of(sqlite3.SQLITE_READONLY | 1 << 8), 1, NOT_WRITABLE),
        (error_of(sqlite3.SQLITE_IOERR), 1, UNUSABLE),
        (sqlite3.IntegrityError("UNIQUE"), 1, UNUSABLE),
    ],
)
def test_reason_of_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception, free: int, reason: str
) -> None:
    real = os.statvfs(tmp_path)
    fields = [*real[:3], real[3] * free, real[4] * free, *real[5:]]
    monkeypatch.setattr(os, "statvfs", lambda _: os.statvfs_result(fields))
    assert reason_of(error, tmp_path) == reason


def test_random_bytes_are_put_aside_when_the_file_is_opened(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / FILE).write_bytes(content := os.urandom(5_000))
    database = Database(str(tmp_path))
    assert database.fault(is_needed=True) == ""
    assert (count(database), count(database)) == (0, 1)
    (aside,) = asides(tmp_path)
    assert (tmp_path / aside).read_bytes() == content
    assert [aside in record.getMessage() for record in caplog.records] == [True]


def test_malformed_page_is_put_aside_when_the_file_is_opened(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / FILE)) as connection:
        connection.executescript(database_module.TABLES)
    with (tmp_path / FILE).open("r+b") as file:
        file.seek(4096)
        file.write(b"x" * 4096)
    assert count(Database(str(tmp_path))) == 0
    assert len(asides(tmp_path)) == 1


def test_file_that_spoils_while_two_use_it_is_put_aside_once(tmp_path: Path) -> None:
    """The second one meets the new file, and does not touch the log of the new file."""
    first, second = (Database(str(tmp_path)) for _ in range(2))
    for database in (first, second):
        count(database, 5)
    with closing(sqlite3.connect(tmp_path / FILE)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    spoil(tmp_path)
    for database in (first, second):
        with pytest.raises(UnavailableError, match=DAMAGED):
            count(database)
    assert [count(first), count(second), count(first)] == [0, 1, 2]
    assert len(asides(tmp_path)) == 1
    assert count(Database(str(tmp_path)), 0) == 3


def test_one_that_still_uses_a_damaged_file_spoils_no_new_file(tmp_path: Path) -> None:
    first, second = (Database(str(tmp_path)) for _ in range(2))
    for database in (first, second):
        count(database)
    first._damaged = first._inode
    first._disconnect()  # as after an error; `second` has the file and its log open
    assert [count(first, 7), count(first), count(second), count(first, 0)] == [0, 7, 8, 9]
    assert count(Database(str(tmp_path)), 0) == 9
    (aside,) = asides(tmp_path)
    with closing(sqlite3.connect(tmp_path / aside)) as connection:
        assert connection.execute("SELECT characters FROM usage").fetchall() == [(2,)]


def count_in_a_process(folder: str) -> None:
    for _ in range(20):
        count(Database(folder))


def test_processes_that_start_on_random_bytes_put_them_aside_once(tmp_path: Path) -> None:
    (tmp_path / FILE).write_bytes(os.urandom(50_000))
    context = multiprocessing.get_context("spawn")
    started = [context.Process(target=count_in_a_process, args=(str(tmp_path),)) for _ in range(3)]
    for process in started:
        process.start()
    for process in started:
        process.join()
    assert [process.exitcode for process in started] == [0, 0, 0]
    assert count(Database(str(tmp_path)), 0) == 60
    assert len(asides(tmp_path)) == 1


@pytest.mark.parametrize("names", [[FILE], [FILE, f"{FILE}-wal"], [FILE, f"{FILE}-shm"]])
def test_removed_file_is_made_anew(tmp_path: Path, names: list[str]) -> None:
    """Without this, counts go to a file without a name, and each process has its own."""
    first, second = (Database(str(tmp_path)) for _ in range(2))
    for database in (first, second):
        count(database, 5)
    for name in names:
        (tmp_path / name).unlink()
    assert [count(first), count(second), count(first)] == [0, 1, 2]
    assert count(Database(str(tmp_path)), 0) == 3


def test_locked_file_is_waited_for_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Requests that queue behind one that waited in vain fail at once."""
    database = Database(str(tmp_path))
    lock(tmp_path, database)
    monkeypatch.setattr(database_module, "PAUSE_SECONDS", 3600.0)
    with pytest.raises(UnavailableError, match=LOCKED):
        count(database)
    monkeypatch.setattr(database, "_open", lambda: pytest.fail("it was opened again"))
    with pytest.raises(UnavailableError, match=LOCKED):
        count(database)


async def test_state_that_hangs_takes_no_thread_from_other_work(tmp_path: Path) -> None:
    released = threading.Event()
    database = Database(str(tmp_path))
    waiting = [asyncio.create_task(database.call(released.wait)) for _ in range(64)]
    await asyncio.sleep(0)
    await asyncio.to_thread(released.set)  # no thread would be left for it
    assert all(await asyncio.gather(*waiting))


def test_check_creates_no_file_that_is_not_needed(tmp_path: Path) -> None:
    database = Database(str(tmp_path / "new"))
    assert database.fault() == ""
    assert not [*tmp_path.iterdir()]
    assert database.fault(is_needed=True) == ""
    assert (tmp_path / "new" / FILE).exists()
    (tmp_path / "file").touch()
    assert Database(str(tmp_path / "file" / "below")).fault() == NOT_WRITABLE


def test_observer_leaves_a_damaged_file_and_logs_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / FILE).write_bytes(b"x" * 5_000)
    assert Database(str(tmp_path), is_observer=True).fault() == DAMAGED
    assert asides(tmp_path) == []
    assert not caplog.records


def test_watch_reports_the_state(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "file").touch()
    reports: list[bool] = []
    watch = StateWatch(Database(str(tmp_path / "file")), False, reports.append)

    async def run() -> None:
        for _ in range(2):
            await watch.check()
        assert watch.fault == NOT_WRITABLE
        (tmp_path / "file").unlink()
        await watch.check()
        assert watch.fault == ""

    asyncio.run(run())
    assert reports == [False, False, True]
    (record,) = caplog.records  # no request has used the state: one line is enough
    assert NOT_WRITABLE in record.getMessage()
