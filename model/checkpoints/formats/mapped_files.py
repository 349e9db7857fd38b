"""Files that are read by mapping them into memory."""

import ctypes
import mmap
import re
import sys
from collections.abc import Iterator
from pathlib import Path

SMAPS = Path("/proc/self/smaps")
MAPPING = re.compile(r"^([0-9a-f]+)-([0-9a-f]+) \S+ \S+ \S+ \S+ +(.*)\n((?:[A-Z].*\n?)*)", re.M)
UNCHANGED = re.compile(r"^Anonymous: +0 kB$", re.M)


def map_file(path: Path) -> mmap.mmap | bytes:
    """What is in a file, of which only what is read gets into memory.

    Raises:
        OSError: It cannot be read.
    """
    with path.open("rb") as file:
        if not path.stat().st_size:
            return b""  # which cannot be mapped
        return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)


def forget_pages(path: Path) -> None:
    """Takes what was read of a mapped file out of this process' memory, on Linux.

    What is still in use comes back from the file when it is read again. A mapping that somebody
    has written to, and so holds more than the file, stays as it is.
    """
    if sys.platform == "linux" and SMAPS.exists():
        madvise = ctypes.CDLL(None).madvise
        for start, size in unchanged_mappings(SMAPS.read_text("utf-8", "replace"), path):
            madvise(ctypes.c_void_p(start), ctypes.c_size_t(size), mmap.MADV_DONTNEED)


def unchanged_mappings(smaps: str, path: Path) -> Iterator[tuple[int, int]]:
    """(address, bytes) of each mapping of a file that holds just what is in the file.

    Source: proc_pid_smaps(5); `Anonymous` is what no file holds.
    """
    whole = str(path.resolve())
    for start, end, name, fields in MAPPING.findall(smaps):
        if name == whole and UNCHANGED.search(fields):
            yield int(start, 16), int(end, 16) - int(start, 16)
