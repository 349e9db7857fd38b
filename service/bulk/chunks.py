"""The chunks of a shard: rows of similar length, which are computed and committed together.

The rows of a batch take less time if they have nearly the same length. The rows of a shard are
therefore sorted by length, and divided into chunks. The chunks depend only on the rows, so a job
that continues makes the same chunks again.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from service.bulk.rows import Row

WINDOW_CHARS = 16_000_000
"""Approximate number of characters in the rows that are sorted at once.

To limit the memory, a shard with more characters is sorted in parts of about this size.
"""


@dataclass(frozen=True, slots=True)
class Chunk:
    """Some rows of a shard.

    Attributes:
        number: Number of the chunk in its shard.
        positions: Position of each row in the shard, from 0.
        rows: The rows.
    """

    number: int
    positions: Sequence[int]
    rows: Sequence[Row]


def chunks_of(rows: Iterable[Row], chunk_rows: int) -> Iterator[Chunk]:
    """Divides the rows of a shard into chunks, the longest rows first.

    If the shard has more than WINDOW_CHARS characters, the function sorts and divides one part of
    the shard after the other.

    Args:
        rows: All rows of the shard.
        chunk_rows: Number of rows of a chunk. The last chunk may have fewer.
    """
    number = 0
    for window in _windows(rows, chunk_rows):
        window.sort(key=lambda each: num_chars(each[1]), reverse=True)
        for first in range(0, len(window), chunk_rows):
            positions, part = zip(*window[first : first + chunk_rows], strict=True)
            yield Chunk(number, positions, part)
            number += 1


def num_chars(row: Row) -> int:
    """Returns the length of a row's text in characters; 0 if the row has no text."""
    return len(row.text or "")


def _windows(rows: Iterable[Row], chunk_rows: int) -> Iterator[list[tuple[int, Row]]]:
    """Yields the parts of a shard: lists of rows, each row with its position.

    Each part except the last has at least WINDOW_CHARS characters, and fills whole chunks.
    """
    window = list[tuple[int, Row]]()
    chars = 0
    for position, row in enumerate(rows):
        window.append((position, row))
        chars += num_chars(row)
        if chars >= WINDOW_CHARS and len(window) % chunk_rows == 0:
            yield window
            window, chars = [], 0
    if window:
        yield window
