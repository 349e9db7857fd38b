"""Rounds arrays, and keeps the largest values of their rows."""

import numpy as np
from numpy.typing import NDArray


def largest(data: NDArray[np.float32], count: int) -> tuple[NDArray[np.float32], NDArray[np.int32]]:
    """Returns the `count` largest values of each row, largest first, and their columns.

    Equal values keep the order of their columns. Rows with at most `count` values keep all values.
    """
    order = np.argsort(-data, axis=-1, kind="stable")[..., :count]
    return np.take_along_axis(data, order, axis=-1), order.astype(np.int32)


def rounded(data: NDArray[np.float32], decimals: int | None) -> NDArray[np.float32]:
    """Rounds values so that JSON writes them with at most `decimals` decimals."""
    if decimals is None:
        return data
    return np.round(data.astype(np.float64), decimals).astype(np.float32)
