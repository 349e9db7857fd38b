"""Reads lines of a text file or of the standard input; each line is one text."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

STANDARD_INPUT = "-"
BLOCK_BYTES = 1 << 20


class LineError(Exception):
    """A line cannot be read. The message names the line."""


@contextmanager
def opened_lines(source: str) -> Iterator[BinaryIO]:
    """Yields a file, or the standard input for `-`."""
    if source == STANDARD_INPUT:
        yield sys.stdin.buffer
    else:
        with open(source, "rb") as file:
            yield file


def count_lines(path: Path) -> int:
    """Returns the number of lines of a file. A last line without a line break also counts."""
    number, last = 0, b"\n"
    with path.open("rb") as file:
        while block := file.read(BLOCK_BYTES):
            number += block.count(b"\n")
            last = block[-1:]
    return number + (last != b"\n")


def read_lines(file: BinaryIO) -> Iterator[str]:
    """Yields the lines of a file in UTF-8, each with its line break.

    A byte order mark at the start is left out.
    """
    name = "the standard input" if file is sys.stdin.buffer else file.name
    for number, line in enumerate(file, 1):
        try:
            yield line.decode("utf-8-sig" if number == 1 else "utf-8")
        except UnicodeDecodeError:
            message = f"line {number} of {name} is not UTF-8; save the text with the encoding UTF-8"
            raise LineError(message) from None
