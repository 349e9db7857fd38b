"""Only regular files of bounded size are read; mapped files leave the memory again."""

import mmap
import os
import shutil
import socket
import threading
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from model import regular_files
from model.checkpoints.embedding import forget_pages
from model.checkpoints.families.sentence_transformers import find_embedding_models
from model.checkpoints.formats.files import map_file
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

SMAPS = Path("/proc/self/smaps")


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


@pytest.mark.parametrize(("last", "pages"), [(-1, 2), (8, BYTES // mmap.PAGESIZE)])
def test_whole_pages_of_a_tensor_are_forgotten_and_come_back(
    tmp_path: Path, last: int, pages: int
) -> None:
    """Other tensors are in the first page and in the last."""
    path = big_file(tmp_path)
    tensor = torch.from_file(str(path), size=BYTES // 4, dtype=torch.int32)
    total = int(tensor.sum())
    assert resident_bytes(path) == BYTES
    forget_pages(tensor[1:last])
    assert resident_bytes(path) == pages * mmap.PAGESIZE
    assert int(tensor.sum()) == total
