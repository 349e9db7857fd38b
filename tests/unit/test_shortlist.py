import struct
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from model.architectures.output import MAGIC, Shortlist
from model.errors import CheckpointFormatError

OFFSETS = [0, 2, 2, 5]
CANDIDATES = [4, 9, 5, 7, 9]
VOCAB_SIZE = 3


def binary(
    offsets: list[int] = OFFSETS,
    candidates: list[int] = CANDIDATES,
    num_frequent: int = 2,
    magic: int = MAGIC,
) -> bytes:
    """The file that Marian would write; the checksum is not looked at."""
    header = struct.pack("<6Q", magic, 123, num_frequent, 2, len(offsets), len(candidates))
    return header + np.array(offsets, "<u8").tobytes() + np.array(candidates, "<u4").tobytes()


@pytest.fixture
def write(tmp_path: Path) -> Callable[[bytes], Path]:
    path = tmp_path / "lex.bin"

    def write(data: bytes) -> Path:
        path.write_bytes(data)
        return path

    return write


def read(path: Path, is_shared: bool = False) -> Shortlist:
    return Shortlist.read(path, VOCAB_SIZE, target_vocab_size=10, is_shared=is_shared)


def test_ids_are_the_frequent_ones_and_the_sources_candidates(
    write: Callable[[bytes], Path],
) -> None:
    shortlist = read(write(binary()))
    assert shortlist.ids([0]).tolist() == [0, 1, 4, 9]
    assert shortlist.ids([1]).tolist() == [0, 1]
    assert shortlist.ids([2, 0, 2]).tolist() == [0, 1, 4, 5, 7, 9]


def test_a_shared_vocabulary_lets_the_source_copy_itself(write: Callable[[bytes], Path]) -> None:
    assert read(write(binary()), is_shared=True).ids([2]).tolist() == [0, 1, 2, 5, 7, 9]


def test_ids_do_not_depend_on_the_order_of_the_source(write: Callable[[bytes], Path]) -> None:
    shortlist = read(write(binary()), is_shared=True)
    assert shortlist.ids([2, 1, 0]).tolist() == shortlist.ids([0, 1, 2, 2]).tolist()


@pytest.mark.parametrize(
    ("message", "data"),
    [
        ("not a binary shortlist", b""),
        ("not a binary shortlist", binary()[:40]),
        ("not a binary shortlist", binary(magic=MAGIC + 1)),
        ("its header says", binary()[:-1]),
        ("its header says", binary() + b"\0"),
        ("lists 2 source ids; the vocabulary has 3", binary(offsets=[0, 2, 5])),
        ("offsets that decrease, or do not end", binary(offsets=[0, 3, 2, 5])),
        ("offsets that decrease, or do not end", binary(offsets=[0, 2, 2, 4])),
        ("offsets that decrease, or do not end", binary(offsets=[0, 2, 2, 6])),
        ("offsets that decrease, or do not end", binary(offsets=[2**64 - 1, 0, 2, 5])),
        ("ids beyond the vocabulary of 10", binary(candidates=[4, 9, 5, 7, 10])),
        ("lists no frequent ids", binary(num_frequent=0)),
        ("ids beyond the vocabulary of 10", binary(num_frequent=11)),
        ("ids beyond the vocabulary of 10", binary(num_frequent=2**63)),
    ],
    ids=lambda value: "" if isinstance(value, bytes) else value,
)
def test_a_damaged_file_is_refused(
    write: Callable[[bytes], Path], message: str, data: bytes
) -> None:
    with pytest.raises(CheckpointFormatError, match=f"lex.bin .*{message}"):
        read(write(data))


def test_a_file_cut_anywhere_is_refused(write: Callable[[bytes], Path]) -> None:
    whole = binary()
    for length in range(len(whole)):
        with pytest.raises(CheckpointFormatError):
            read(write(whole[:length]))
