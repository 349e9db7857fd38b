"""The store of translated documents."""

import time
from pathlib import Path

import pytest

from service.documents.store import DocumentState, DocumentStore
from service.tasks.documents.job import translated_name


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


def test_full_disk_leaves_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(path: Path, content: bytes) -> int:
        path.touch()
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", fail)
    with pytest.raises(OSError, match="No space"):
        DocumentStore(str(tmp_path)).finish(DocumentState("a.txt", 4, time.time() + 60), b"text")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["\u3000.docx", "\u200b.docx", "dir\\.docx", ".docx"])
def test_name_without_letters_gets_one(name: str) -> None:
    assert translated_name(name, "pt") == "document.pt.docx"
