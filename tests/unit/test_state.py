"""The file of the state, and the quotas and suggestions in it."""

import asyncio
import errno
import logging
import multiprocessing
import os
import sqlite3
import threading
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from service.errors import InvalidRequestError, QuotaExceededError, UnavailableError
from service.state import database as database_module
from service.state import quota as quota_module
from service.state import suggestions as suggestions_module
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
from service.state.quota import Quota, this_month
from service.state.suggestions import MAX_CHARS, Suggestion, SuggestionStore


def count(database: Database, number: int = 1) -> int:
    """Adds a number to the count of an account, and returns the count before."""
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


async def test_watch_reports_the_state(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "file").touch()
    reports: list[bool] = []
    watch = StateWatch(Database(str(tmp_path / "file")), False, reports.append)

    for _ in range(2):
        await watch.check()
    assert watch.fault == NOT_WRITABLE
    (tmp_path / "file").unlink()
    await watch.check()
    assert watch.fault == ""
    assert reports == [False, False, True]
    (record,) = caplog.records  # no request has used the state: one line is enough
    assert NOT_WRITABLE in record.getMessage()


async def spend(quota: Quota, account: str, *numbers: int) -> None:
    for number in numbers:
        async with quota.spent(account, number):
            pass


@pytest.fixture
def quota(tmp_path: Path) -> Quota:
    return Quota(Database(str(tmp_path / "new" / "folder")), 10)


def used(quota: Quota, account: str = "a") -> int:
    return asyncio.run(quota.used(account))


def test_characters_up_to_the_limit_are_counted_by_account(quota: Quota) -> None:
    asyncio.run(spend(quota, "a", 6, 0, 4))
    asyncio.run(spend(quota, "b", 1))
    assert (used(quota), used(quota, "b"), used(quota, "c")) == (10, 1, 0)


def test_refused_request_counts_nothing(quota: Quota) -> None:
    asyncio.run(spend(quota, "a", 6))
    with pytest.raises(QuotaExceededError, match=r"6 of 10 characters .* the request has 5"):
        asyncio.run(spend(quota, "a", 5))
    assert used(quota) == 6


def test_failed_request_counts_nothing(quota: Quota) -> None:
    async def fail() -> None:
        async with quota.spent("a", 5):
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        asyncio.run(fail())
    assert used(quota) == 0


def test_month_begins_with_nothing(quota: Quota, monkeypatch: pytest.MonkeyPatch) -> None:
    asyncio.run(spend(quota, "a", 10))
    monkeypatch.setattr(quota_module, "this_month", lambda: "2000-01")
    assert used(quota) == 0
    asyncio.run(spend(quota, "a", 10))
    assert len(this_month()) == len("2000-01")


def test_without_a_limit_nothing_is_stored(tmp_path: Path) -> None:
    asyncio.run(spend(Quota(Database(str(tmp_path)), 0), "a", 10**9))
    assert not [*tmp_path.iterdir()]


def test_state_that_fails_later_keeps_the_error_of_the_request(
    quota: Quota, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> int:
        raise UnavailableError("no state")

    async def run() -> None:
        async with quota.spent("a", 5):
            monkeypatch.setattr(quota, "add", fail)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        asyncio.run(run())


def test_reader_does_not_wait_for_a_writer(quota: Quota) -> None:
    asyncio.run(spend(quota, "a", 3))
    other = Database(str(quota.database.folder))
    with other.transaction() as connection:
        connection.execute("UPDATE usage SET characters = 9")
        assert used(quota) == 3


def test_file_has_hashes_only_and_is_closed(tmp_path: Path) -> None:
    database = Database(str(tmp_path))
    asyncio.run(spend(Quota(database, 9), "a", 1))
    del database
    with sqlite3.connect(tmp_path / FILE) as connection:
        rows = connection.execute("SELECT account, characters FROM usage").fetchall()
    connection.close()
    assert rows == [("a", 1)]


async def test_cancelled_request_is_not_charged(
    quota: Quota, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its client has gone while a thread waits for the file."""
    begun, released = threading.Event(), threading.Event()
    add = quota.add

    def slow(*args: Any) -> int:
        begun.set()
        released.wait()
        return add(*args)

    monkeypatch.setattr(quota, "add", slow)
    task = asyncio.create_task(spend(quota, "a", 4))
    await asyncio.to_thread(begun.wait)
    task.cancel()
    released.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await quota.used("a") == 0


def number(index: int) -> Suggestion:
    return Suggestion(f"text {index} 🎉'; --", f"better {index}", "auto", "pt")


def add(folder: Path, *numbers: int) -> None:
    """Adds suggestions through a connection of its own, as a process has it."""
    store = SuggestionStore(Database(str(folder)))
    for index in numbers:
        asyncio.run(store.add(number(index)))


def stored(folder: Path) -> list[Suggestion]:
    """Returns the suggestions of a folder, oldest first."""
    with closing(sqlite3.connect(folder / FILE)) as connection:
        rows = connection.execute("SELECT q, s, source, target FROM suggestions ORDER BY id")
        return [Suggestion(*row) for row in rows]


def test_suggestions_are_kept_in_order(tmp_path: Path) -> None:
    add(tmp_path, 0, 1)
    add(tmp_path, 2)
    assert stored(tmp_path) == [number(index) for index in range(3)]


def test_writers_wait_for_each_other(tmp_path: Path) -> None:
    threads = [
        threading.Thread(target=add, args=(tmp_path, *range(20 * each, 20 * each + 20)))
        for each in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found = sorted(stored(tmp_path), key=lambda each: int(each.q.split()[1]))
    assert found == [number(index) for index in range(80)]


def test_processes_that_open_a_new_file_together_wait_for_each_other(tmp_path: Path) -> None:
    """SQLite refuses to switch to the write-ahead log while another connection writes."""
    (tmp_path / FILE).touch()
    with closing(sqlite3.connect(tmp_path / FILE, isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        thread = threading.Thread(target=add, args=(tmp_path, 0))
        thread.start()
        time.sleep(0.1)  # the thread meets the lock
        other.execute("COMMIT")
        thread.join()
    assert stored(tmp_path) == [number(0)]


def test_time_is_stored(tmp_path: Path) -> None:
    add(tmp_path, 0)
    with closing(sqlite3.connect(tmp_path / FILE)) as connection:
        ((created,),) = connection.execute("SELECT created FROM suggestions").fetchall()
    assert abs(created - (tmp_path / FILE).stat().st_mtime) < 60


@pytest.mark.parametrize(("name", "at"), [("q", 0), ("s", 1)])
def test_long_text_is_refused(tmp_path: Path, name: str, at: int) -> None:
    texts = ["a" * MAX_CHARS, "b" * MAX_CHARS]
    store = SuggestionStore(Database(str(tmp_path)))
    asyncio.run(store.add(Suggestion(texts[0], texts[1], "en", "pt")))
    texts[at] += "a"
    message = f"{name} has {MAX_CHARS + 1} characters; the limit is {MAX_CHARS}"
    with pytest.raises(InvalidRequestError, match=message):
        asyncio.run(store.add(Suggestion(texts[0], texts[1], "en", "pt")))
    assert len(stored(tmp_path)) == 1


def test_size_of_all_suggestions_is_limited(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(suggestions_module, "MAX_BYTES", 200_000)
    store = SuggestionStore(Database(str(tmp_path)))
    long = Suggestion("a" * MAX_CHARS, "b" * MAX_CHARS, "en", "pt")

    async def add_many() -> None:
        for _ in range(100):
            await store.add(long)

    with pytest.raises(UnavailableError, match=r"up to 200000; .* delete old suggestions"):
        asyncio.run(add_many())
    number = len(stored(tmp_path))
    assert 5 < number < 11
    with closing(sqlite3.connect(tmp_path / FILE)) as connection, connection:
        connection.execute("DELETE FROM suggestions WHERE id = 1")
    asyncio.run(store.add(long))
    assert len(stored(tmp_path)) == number
