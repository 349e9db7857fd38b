"""The store of translated documents."""

import time
from pathlib import Path

import pytest

from service.documents.store import DocumentState, DocumentStore


def test_one_of_two_callers_takes_a_document(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second caller comes after the first one has removed one of the two files."""
    store = DocumentStore(str(tmp_path))
    state = DocumentState("a.txt", 4, time.time() + 60)
    store.finish(state, b"text")
    unlink = Path.unlink
    second: list[bytes | None] = []

    def interrupted(path: Path, missing_ok: bool = False) -> None:
        unlink(path, missing_ok)
        monkeypatch.setattr(Path, "unlink", unlink)
        second.append(store.take(state.id))

    monkeypatch.setattr(Path, "unlink", interrupted)
    assert sorted([store.take(state.id), *second], key=bool) == [None, b"text"]
    assert list(tmp_path.iterdir()) == []
