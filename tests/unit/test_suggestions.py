"""Suggestions are stored in order; `test_state` has several processes that write together."""

import asyncio
import sqlite3
import threading
import time
from contextlib import closing
from pathlib import Path

import pytest

from service.errors import InvalidRequestError, UnavailableError
from service.state import suggestions as suggestions_module
from service.state.database import FILE, Database
from service.state.suggestions import MAX_CHARS, Suggestion, SuggestionStore


def number(index: int) -> Suggestion:
    return Suggestion(f"text {index} 🎉'; --", f"better {index}", "auto", "pt")


def add(folder: Path, *numbers: int) -> None:
    """Adds suggestions through a connection of its own, as a process has it."""
    store = SuggestionStore(Database(str(folder)))
    for index in numbers:
        asyncio.run(store.add(number(index)))


def stored(folder: Path) -> list[Suggestion]:
    with closing(sqlite3.connect(folder / FILE)) as connection:
        rows = connection.execute("SELECT q, s, source, target FROM suggestions ORDER BY id")
        return [Suggestion(*row) for row in rows]


def test_suggestions_are_kept_in_order_with_their_time(tmp_path: Path) -> None:
    add(tmp_path, 0, 1)
    add(tmp_path, 2)
    assert stored(tmp_path) == [number(index) for index in range(3)]
    with closing(sqlite3.connect(tmp_path / FILE)) as connection:
        for (created,) in connection.execute("SELECT created FROM suggestions"):
            assert abs(created - (tmp_path / FILE).stat().st_mtime) < 60


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
