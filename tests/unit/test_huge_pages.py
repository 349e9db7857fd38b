"""Copies of arrays that begin with a page or with a cache line."""

from pathlib import Path

import numpy as np
import pytest

from model.checkpoints.formats.huge_pages import HUGE_PAGE, LINE, copy_of

MAPS = Path("/proc/self/maps")


@pytest.mark.parametrize(("rows", "alignment"), [(0, 1), (3, LINE), (HUGE_PAGE // 500, HUGE_PAGE)])
def test_copies_are_aligned_and_the_same(rows: int, alignment: int) -> None:
    array = np.random.default_rng(rows).integers(-99, 99, (500, rows), np.int16).T
    copy = copy_of(array)
    assert np.array_equal(copy, array)
    assert copy.flags.c_contiguous
    assert copy.ctypes.data % alignment == 0
    assert not np.shares_memory(copy, array)


@pytest.mark.skipif(not MAPS.exists(), reason="only Linux tells what memory is")
def test_large_copies_lie_in_memory_that_may_have_huge_pages() -> None:
    """Python's anonymous mappings are shared by default, which asks another setting for them."""
    copy = copy_of(np.ones(HUGE_PAGE, np.int8))
    for line in MAPS.read_text("utf-8").splitlines():
        place, kind, *_ = line.split()
        first, end = (int(number, 16) for number in place.split("-"))
        if first <= copy.ctypes.data < end:
            assert kind == "rw-p"
            return
    raise AssertionError("it is nowhere")
