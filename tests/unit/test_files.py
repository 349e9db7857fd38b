"""Only regular files of bounded size are read; mapped files leave the memory again."""

import mmap
import os
import shutil
import socket
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from model import regular_files
from model.checkpoints.families.sentence_transformers import find_embedding_models
from model.checkpoints.formats.files import SMAPS, forget_pages, map_file, unchanged_mappings
from model.checkpoints.load import find_models, load_vocabularies
from model.errors import CheckpointError, CheckpointFormatError
from model.regular_files import check_file
from service.models.registry.files import measure
from tests.api.loading import folder_of
from tests.tiny_text import write_model


def pipe(path: Path) -> None:
    os.mkfifo(path)


def endless(path: Path) -> None:
    path.symlink_to("/dev/zero")


def listener(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as server:
        here = Path.cwd()
        os.chdir(path.parent)  # the path of a socket has at most 107 characters
        server.bind(path.name)
        os.chdir(here)


SPECIAL = [pipe, endless, listener]
Make = Callable[[Path], None]


def ends(work: Callable[[], object]) -> None:
    """Fails if work blocks; its thread is left behind."""
    errors: list[BaseException] = []

    def run() -> None:
        try:
            work()
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(20)
    assert not thread.is_alive(), "the reader is blocked"
    for error in errors:
        raise error


@pytest.mark.parametrize("make", SPECIAL)
def test_special_file_is_refused_by_its_type(make: Make, tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    make(path)
    for work in (lambda: check_file(path), lambda: measure("config.json", path)):
        with pytest.raises(CheckpointFormatError, match="not a regular file"):
            ends(work)


def test_large_file_is_refused_by_its_size(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    with path.open("wb") as file:
        file.truncate(regular_files.MAX_TEXT_BYTES + 1)  # it takes no space on the disk
    with pytest.raises(CheckpointFormatError, match=f"the limit .* {2**27}"):
        check_file(path)


@pytest.mark.parametrize("make", SPECIAL)
@pytest.mark.parametrize("pattern", ["*.bin", "*.spm", "lex.*"])
def test_translation_model_with_a_special_file_is_refused(
    make: Make, pattern: str, tmp_path: Path
) -> None:
    folder = shutil.copytree(folder_of("enpt"), tmp_path / "enpt")
    (path, *_) = sorted(folder.glob(pattern))
    path.unlink()
    make(path)

    def read() -> None:
        (files,) = find_models(str(folder))
        load_vocabularies(files)
        _ = files.revision

    with pytest.raises(CheckpointError):
        ends(read)


@pytest.mark.parametrize("make", SPECIAL)
@pytest.mark.parametrize(
    "name", ["config.json", "tokenizer.json", "modules.json", "model.safetensors"]
)
def test_embedding_model_with_a_special_file_is_refused(
    make: Make, name: str, tmp_path: Path
) -> None:
    folder = Path(write_model(tmp_path / "tiny"))
    (folder / name).unlink(missing_ok=True)
    make(folder / name)

    def read() -> None:
        (files,) = find_embedding_models(str(folder))
        _ = files.revision
        measure(name, folder / name)

    with pytest.raises(CheckpointError):
        ends(read)


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
