"""Holds the targets of all greedy rows as arrays.

A row of the batch holds one target, which is a translation in progress. A greedy row takes the most
probable token of each step and needs no scores. All other rows belong to a search, which is a beam
search or a greedy search with scores. In the shapes, B is a number of rows.

`GreedyRows` uses arrays, because a Python loop over a thousand rows would take longer than the
decode step on a GPU.
"""

from collections.abc import Sequence as SequenceOf

import numpy as np
from numpy.typing import NDArray

from model.architectures.shortlist import Ids


class GreedyRows:
    """The tokens and length limits of all greedy rows.

    Args:
        max_rows: Number of rows.
        max_tokens: Largest length limit of a target.
        eos_id: Id that ends a target.
    """

    def __init__(self, max_rows: int, max_tokens: int, eos_id: int) -> None:
        self.tokens = np.zeros((max_rows, max_tokens), np.int32)
        self.lengths = np.zeros(max_rows, np.int64)
        self.limits = np.zeros(max_rows, np.int64)  # 0 for the rows of a search
        self.eos_id = eos_id

    def enter(self, first: int, limits: SequenceOf[int]) -> None:
        """Starts targets in row `first` and the rows after it.

        Args:
            first: Number of the first row.
            limits: Largest number of tokens of each target; 0 for a row of a search.
        """
        rows = slice(first, first + len(limits))
        self.lengths[rows], self.limits[rows] = 0, limits

    def remaining(self, rows: int) -> Ids:
        """Returns how many tokens each of the first `rows` rows may still get (B,).

        The number is 0 for the rows of a search, and at least 1 for all other rows.
        """
        left: Ids = self.limits[:rows] - self.lengths[:rows]
        return left

    def append(self, rows: Ids, best: NDArray[np.integer]) -> list[int]:
        """Appends tokens best[i] to row rows[i], unless the row is freed or belongs to a search.

        Args:
            rows: Row numbers (B,); -1 for a row that was freed in the meantime.
            best: Tokens (B, steps); -1 in steps after the end of a row, and in all steps of a row
                that was not decoded.

        Returns:
            The rows that have ended, by EOS or by their limit.
        """
        is_taken = (rows >= 0) & (self.limits[rows] > 0)
        rows, best = rows[is_taken], best[is_taken]
        is_token = best >= 0  # (B, steps)
        index, step = is_token.nonzero()
        lengths = self.lengths[rows]
        self.tokens[rows[index], lengths[index] + step] = best[is_token]
        lengths += is_token.sum(axis=1)
        self.lengths[rows] = lengths
        has_ended = (best == self.eos_id).any(axis=1) | (lengths >= self.limits[rows])
        ended: list[int] = rows[has_ended].tolist()
        return ended

    def move(self, source: SequenceOf[int], target: SequenceOf[int]) -> None:
        """Moves the target of row source[i] to row target[i]."""
        arrays: list[NDArray[np.generic]] = [self.tokens, self.lengths, self.limits]
        for values in arrays:
            values[target] = values[source]

    def target(self, row: int) -> list[int]:
        """Returns the tokens of a row."""
        tokens: list[int] = self.tokens[row, : self.lengths[row]].tolist()
        return tokens
