import sqlite3
import threading
from contextlib import closing
from pathlib import Path

import pytest
from pydantic import ValidationError

from service.settings import Settings
from service.tasks.suggestions import Suggestion, SuggestionStore


def number(index: int) -> Suggestion:
    return Suggestion(f"text {index} 🎉'; --", f"better {index}", "auto", "pt")


def stored(path: str) -> list[Suggestion]:
    """Returns the suggestions of a file, oldest first."""
    with closing(sqlite3.connect(path)) as connection:
        rows = connection.execute("SELECT q, s, source, target FROM suggestions ORDER BY id")
        return [Suggestion(*row) for row in rows]


def test_suggestions_are_kept_in_order(tmp_path: Path) -> None:
    path = str(tmp_path / "suggestions.db")
    for index in range(3):
        SuggestionStore(path).add(number(index))
    assert stored(path) == [number(index) for index in range(3)]


def test_writers_wait_for_each_other(tmp_path: Path) -> None:
    """Several HTTP processes write to one file, each with connections of its own."""
    path = str(tmp_path / "suggestions.db")

    def write(first: int) -> None:
        for index in range(first, first + 20):
            SuggestionStore(path).add(number(index))

    threads = [threading.Thread(target=write, args=(20 * each,)) for each in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found = sorted(stored(path), key=lambda each: int(each.q.split()[1]))
    assert found == [number(index) for index in range(80)]


def test_time_is_stored(tmp_path: Path) -> None:
    store = SuggestionStore(str(tmp_path / "suggestions.db"))
    store.add(number(0))
    with closing(sqlite3.connect(store.path)) as connection:
        ((created,),) = connection.execute("SELECT created FROM suggestions").fetchall()
    assert abs(created - store.path.stat().st_mtime) < 60


def test_file_of_another_program_is_not_overwritten(tmp_path: Path) -> None:
    file = tmp_path / "notes.txt"
    file.write_text("not a database " * 100)
    with pytest.raises(sqlite3.DatabaseError):
        SuggestionStore(str(file)).add(number(0))
    assert file.read_text() == "not a database " * 100


def test_folder_of_the_file_must_exist(tmp_path: Path) -> None:
    file = str(tmp_path / "nowhere" / "suggestions.db")
    with pytest.raises(ValidationError, match="cannot write to the folder"):
        Settings.model_validate({"suggestions": file})
