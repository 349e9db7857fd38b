"""Rows of the input, their results, their chunks, and the isolation of rows that fail.

The rows of a shard are sorted by length, because a batch of rows of similar length takes less time.
Chunks depend only on the rows, so a job that continues makes the same chunks again.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from service.errors import (
    DeadlineExceededError,
    InternalError,
    OverloadedError,
    ServiceError,
    UnavailableError,
)

TEMPORARY = (DeadlineExceededError, InternalError, OverloadedError, UnavailableError)
"""Errors after which the same row may succeed."""

ATTEMPTS = 3
PAUSE_SECONDS = 1.0
"""Pause before the second attempt at a single row. The pause doubles after each attempt."""

WINDOW_CHARS = 16_000_000
"""Approximate number of characters in the rows that are sorted at once, to limit the memory."""

Vector = NDArray[np.float32]


class JobError(Exception):
    """A job cannot start or continue. The message gives the reason and the remedy."""


@dataclass(slots=True)
class Row:
    id: Any  # value of the id column, or the number of the row
    text: str | None  # None if the text is null or the row cannot be read
    source: str | None = None  # None uses the source language of the job
    target: str = ""  # "" uses the target language of the job
    error: str = ""  # reason why the row cannot be read


@dataclass(slots=True)
class Outcome:
    value: str | Vector | None  # None after an error, for a null text, for a blank text's vector
    error: str = ""


@dataclass(frozen=True, slots=True)
class Chunk:
    """Rows of a shard that are computed and committed together."""

    number: int  # in its shard
    positions: Sequence[int]  # of each row in the shard, from 0
    rows: Sequence[Row]


def chunks_of(rows: Iterable[Row], chunk_rows: int) -> Iterator[Chunk]:
    """Divides the rows of a shard into chunks, the longest rows first.

    A shard with more than WINDOW_CHARS characters is sorted and divided part by part.
    """
    number = 0
    for window in _windows(rows, chunk_rows):
        window.sort(key=lambda each: num_chars(each[1]), reverse=True)
        for first in range(0, len(window), chunk_rows):
            positions, part = zip(*window[first : first + chunk_rows], strict=True)
            yield Chunk(number, positions, part)
            number += 1


def num_chars(row: Row) -> int:
    return len(row.text or "")


def _windows(rows: Iterable[Row], chunk_rows: int) -> Iterator[list[tuple[int, Row]]]:
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


Compute = Callable[[Sequence[Row]], Awaitable[Sequence[Outcome]]]


async def isolated(rows: Sequence[Row], compute: Compute) -> list[Outcome]:
    """Computes rows together; after a ServiceError, computes each half in the same way.

    A single row whose error may be temporary is tried ATTEMPTS times.
    """
    try:
        return [*await compute(rows)]
    except ServiceError as error:
        if len(rows) == 1:
            return [await _again(rows[0], compute, error)]
    middle = len(rows) // 2
    return [*await isolated(rows[:middle], compute), *await isolated(rows[middle:], compute)]


async def _again(row: Row, compute: Compute, error: ServiceError) -> Outcome:
    pause = PAUSE_SECONDS
    for _ in range(ATTEMPTS - 1):
        if not isinstance(error, TEMPORARY):
            break
        await asyncio.sleep(pause)
        pause *= 2
        try:
            return (await compute([row]))[0]
        except ServiceError as later:
            error = later
    details = f" ({error.details})" if error.details else ""
    return Outcome(None, f"{error.message}{details}")
