"""Files in memory, and out of it again."""

import mmap
import sys
from pathlib import Path

import numpy as np
import pytest

from model.checkpoints.formats.mapped_files import SMAPS, forget_pages, map_file, unchanged_mappings

BYTES = 1 << 20

needs_linux = pytest.mark.skipif(sys.platform != "linux", reason="pages are Linux' to forget")


def big_file(folder: Path) -> Path:
    path = folder / "weights with a space.bin"
    path.write_bytes(np.arange(BYTES // 4, dtype=np.int32).tobytes())
    return path


def resident_bytes(path: Path) -> int:
    """Of all mappings of a file."""
    total, is_its = 0, False
    for line in SMAPS.read_text(encoding="utf-8").splitlines():
        if line[0].islower() or line[0].isdigit():
            is_its = line.endswith(str(path))
        elif is_its and line.startswith("Rss:"):
            total += 1024 * int(line.split()[1])
    return total


def test_mapped_file_reads_as_its_bytes(tmp_path: Path) -> None:
    path = big_file(tmp_path)
    assert bytes(map_file(path)[:]) == path.read_bytes()
    path.write_bytes(b"")
    assert map_file(path) == b""


@needs_linux
def test_pages_that_were_read_are_forgotten_and_come_back(tmp_path: Path) -> None:
    path, link = big_file(tmp_path), tmp_path / "link"
    link.symlink_to(path)
    array = np.frombuffer(map_file(path), np.int32)
    total = int(array.sum(dtype=np.int64))
    assert resident_bytes(path) == BYTES
    forget_pages(link)
    assert resident_bytes(path) == 0
    assert int(array.sum(dtype=np.int64)) == total


@needs_linux
def test_pages_that_were_written_to_stay(tmp_path: Path) -> None:
    """The file does not have them: they would come back as they were before."""
    path = big_file(tmp_path)
    with path.open("rb") as file:
        memory = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
    array = np.frombuffer(memory, np.int32)
    array[100] = -1
    forget_pages(path)
    assert array[100] == -1


@needs_linux
def test_other_files_are_left_alone(tmp_path: Path) -> None:
    path = big_file(tmp_path)
    array = np.frombuffer(map_file(path), np.int32)
    array.sum()
    forget_pages(tmp_path / "another.bin")
    assert resident_bytes(path) == BYTES


def test_mappings_are_read_as_the_kernel_writes_them() -> None:
    smaps = (
        "7f0000000000-7f0000003000 r--p 00000000 fe:00 12   /models/a b.bin\n"
        "Rss: 12 kB\nAnonymous:             0 kB\nVmFlags: rd mr\n"
        "7f0000005000-7f0000006000 r--p 00003000 fe:00 12   /models/a b.bin\n"
        "Rss: 4 kB\nAnonymous:             4 kB\n"
        "7f0000007000-7f0000008000 rw-p 00000000 00:00 0 \n"
        "Rss: 4 kB\nAnonymous:             0 kB\n"
        "7f0000009000-7f000000a000 r--p 00000000 fe:00 12   /models/a b.bin"
        "\nAnonymous:             0 kB"
    )
    found = list(unchanged_mappings(smaps, Path("/models/a b.bin")))
    assert found == [(0x7F0000000000, 0x3000), (0x7F0000009000, 0x1000)]
