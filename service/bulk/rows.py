"""Rows of the input, their results, and the isolation of rows that fail.

A row that fails gets its own error. All other rows are computed as if this row did not exist.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
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

Vector = NDArray[np.float32]


class JobError(Exception):
    """A job cannot start or continue. The message gives the reason and the remedy."""


@dataclass(slots=True)
class Row:
    """A row of the input.

    Attributes:
        id: Value of the id column, or the number of the row.
        text: Text to translate or embed; None if the text is null or the row cannot be read.
        source: Source language from a column; None to use the source language of the job.
        target: Target language from a column; "" to use the target language of the job.
        error: Reason why the row cannot be read; "" for a row that can be computed.
    """

    id: Any
    text: str | None
    source: str | None = None
    target: str = ""
    error: str = ""


@dataclass(slots=True)
class Outcome:
    """The result of a row.

    Attributes:
        value: Translation or vector. It is None after an error and for a null text. The vector of
            a blank text is also None.
        error: Reason why the row has failed; "" if it has not failed.
    """

    value: str | Vector | None
    error: str = ""


Compute = Callable[[Sequence[Row]], Awaitable[Sequence[Outcome]]]


async def isolated(rows: Sequence[Row], compute: Compute) -> list[Outcome]:
    """Computes rows together; after an error, computes each half in the same way.

    The function thus divides the rows until each row that fails is alone. A single row whose error
    may be temporary is tried ATTEMPTS times.

    Args:
        rows: Rows to compute; at least one.
        compute: Returns one outcome for each row, or raises a ServiceError.
    """
    try:
        return [*await compute(rows)]
    except ServiceError as error:
        if len(rows) == 1:
            return [await _again(rows[0], compute, error)]
    middle = len(rows) // 2
    return [
        *await isolated(rows[:middle], compute),
        *await isolated(rows[middle:], compute),
    ]


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
