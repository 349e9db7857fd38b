"""Copies of arrays that begin with a page or with a cache line."""

import numpy as np
import pytest

from model.huge_pages import HUGE_PAGE, LINE, copy_of


@pytest.mark.parametrize(("rows", "alignment"), [(0, 1), (3, LINE), (HUGE_PAGE // 500, HUGE_PAGE)])
def test_copies_are_aligned_and_the_same(rows: int, alignment: int) -> None:
    array = np.random.default_rng(rows).integers(-99, 99, (500, rows), np.int16).T
    copy = copy_of(array)
    assert np.array_equal(copy, array)
    assert copy.flags.c_contiguous
    assert copy.ctypes.data % alignment == 0
    assert not np.shares_memory(copy, array)
