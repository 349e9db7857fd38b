"""Maps files into memory, and frees the memory that mapped files take."""

import ctypes
import mmap
import re
import sys
from collections.abc import Iterator
from pathlib import Path

from model.regular_files import MAX_WEIGHT_BYTES, check_file

SMAPS = Path("/proc/self/smaps")
MAPPING = re.compile(r"^([0-9a-f]+)-([0-9a-f]+) \S+ \S+ \S+ \S+ +(.*)\n((?:[A-Z].*\n?)*)", re.M)
UNCHANGED = re.compile(r"^Anonymous: +0 kB$", re.M)


def map_file(path: Path) -> mmap.mmap | bytes:
    """Returns the content of a file. Only the parts that are read take memory.

    Raises:
        CheckpointFormatError: The path leads to a pipe or a device, or the file is too large.
        OSError: The file cannot be read.
    """
    check_file(path, MAX_WEIGHT_BYTES)
    with path.open("rb") as file:
        if not path.stat().st_size:
            return b""  # an empty file cannot be mapped
        return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)


def forget_pages(path: Path) -> None:
    """Frees the memory that a mapped file takes, on Linux.

    A page that is used again is read from the file again. A mapping that was written to is left as
    it is, because its changes are not in the file.
    """
    if sys.platform == "linux" and SMAPS.exists():
        madvise = ctypes.CDLL(None).madvise
        for start, size in unchanged_mappings(SMAPS.read_text("utf-8", "replace"), path):
            madvise(ctypes.c_void_p(start), ctypes.c_size_t(size), mmap.MADV_DONTNEED)


def unchanged_mappings(smaps: str, path: Path) -> Iterator[tuple[int, int]]:
    """Yields (address, number of bytes) of each mapping of a file.

    Mappings that were written to are left out.

    Source: proc_pid_smaps(5); `Anonymous` is the part of a mapping whose content is in no file.
    """
    whole = str(path.resolve())
    for start, end, name, fields in MAPPING.findall(smaps):
        if name == whole and UNCHANGED.search(fields):
            yield int(start, 16), int(end, 16) - int(start, 16)
