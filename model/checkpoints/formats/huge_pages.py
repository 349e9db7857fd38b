"""Copies large arrays into huge pages, if the system provides huge pages.

An array in huge pages is faster to read in random order.
"""

import mmap
from contextlib import suppress
from typing import Any

import numpy as np
from numpy.typing import NDArray

HUGE_PAGE, LINE = 2 << 20, 64


def copy_of(array: NDArray[Any]) -> NDArray[Any]:
    """Returns a contiguous copy that begins at a cache line.

    Where the system has huge pages, a copy of 2 MiB or more has its own memory mapping. The mapping
    is freed together with the copy.
    """
    if array.nbytes < HUGE_PAGE or not hasattr(mmap, "MADV_HUGEPAGE"):
        return _copy_to(np.empty(array.nbytes + LINE, np.uint8), LINE, array)
    # By default, the kernel gives huge pages to private memory only. One more page leaves room
    # for the alignment; a page that is never written takes no memory.
    private = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
    memory = mmap.mmap(-1, array.nbytes + HUGE_PAGE, private)
    with suppress(OSError):  # a kernel without huge pages refuses the advice
        memory.madvise(mmap.MADV_HUGEPAGE)
    return _copy_to(np.frombuffer(memory, np.uint8), HUGE_PAGE, array)


def _copy_to(memory: NDArray[np.uint8], alignment: int, array: NDArray[Any]) -> NDArray[Any]:
    start = -memory.ctypes.data % alignment
    copy = memory[start : start + array.nbytes].view(array.dtype).reshape(array.shape)
    copy[...] = array
    return copy
