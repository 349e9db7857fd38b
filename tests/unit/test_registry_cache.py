"""Records of pulled models."""

import errno
import os
from pathlib import Path

import pytest

from service.models.registry.cache import CachedFile, ModelCache, Record
from service.models.registry.errors import CacheError
from service.models.registry.references import parse_reference
from tests.registry import read_folder

PAIR = "firefox:en-de"
RECORD = Record(PAIR, "firefox/0/en-de", "0", (CachedFile("model.bin", 3, None),))


def test_record_that_cannot_be_written_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither a part of the new record, nor a change of the old one."""
    cache = ModelCache(tmp_path)
    cache.save(RECORD)
    before = read_folder(tmp_path)

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", full)
        with pytest.raises(CacheError, match="cannot be written: No space left"):
            cache.save(Record(PAIR, "other", "1", ()))
    assert read_folder(tmp_path) == before
    assert cache.record(parse_reference(PAIR)) == RECORD
