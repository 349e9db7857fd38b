"""Copies of arrays with random access, in huge pages where the system gives them on request."""

import mmap
from typing import Any

import numpy as np
from numpy.typing import NDArray

HUGE_PAGE, LINE = 2 << 20, 64


def copy_of(array: NDArray[Any]) -> NDArray[Any]:
    """Returns a contiguous copy that begins at a cache line.

    A large copy has its own mapping, which is freed with it.
    """
    if array.nbytes < HUGE_PAGE or not hasattr(mmap, "MADV_HUGEPAGE"):
        return _copy_to(np.empty(array.nbytes + LINE, np.uint8), LINE, array)
    private = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS  # shared memory has no huge pages
    memory = mmap.mmap(-1, array.nbytes + HUGE_PAGE, private)  # pages are taken on the first write
    memory.madvise(mmap.MADV_HUGEPAGE)
    return _copy_to(np.frombuffer(memory, np.uint8), HUGE_PAGE, array)


def _copy_to(memory: NDArray[np.uint8], alignment: int, array: NDArray[Any]) -> NDArray[Any]:
    start = -memory.ctypes.data % alignment
    copy = memory[start : start + array.nbytes].view(array.dtype).reshape(array.shape)
    copy[...] = array
    return copy
