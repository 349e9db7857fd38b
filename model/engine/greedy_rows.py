"""The targets of all rows that take the likeliest token at each step, as arrays.

With a thousand rows a step, a Python loop over them would take longer than a GPU takes to
compute them.
"""

from collections.abc import Sequence as SequenceOf

import numpy as np
from numpy.typing import NDArray

from model.architectures.shortlist import Ids


class GreedyRows:
    """What each row has said so far, and when it has said enough.

    Args:
        max_rows: Rows.
        max_tokens: The longest target that a row may be given.
        eos_id: Ends a target.
    """

    def __init__(self, max_rows: int, max_tokens: int, eos_id: int) -> None:
        self.tokens = np.zeros((max_rows, max_tokens), np.int32)
        self.lengths = np.zeros(max_rows, np.int64)
        self.limits = np.zeros(max_rows, np.int64)  # 0 where a row's tokens are chosen elsewhere
        self.eos_id = eos_id

    def enter(self, row: int, limit: int) -> None:
        """A new target of at most `limit` tokens; 0 leaves the row alone."""
        self.lengths[row], self.limits[row] = 0, limit

    def remaining(self, rows: int) -> Ids:
        """How many tokens each of the first rows may still get, at least 1 (B,)."""
        left: Ids = np.maximum(self.limits[:rows] - self.lengths[:rows], 1)
        return left

    def append(self, rows: Ids, best: NDArray[np.integer]) -> list[int]:
        """Adds tokens best[i] to rows[i], where that is a row and not -1.

        Args:
            rows: (B,).
            best: (B, K); -1 where a row had ended before, never in the first column.

        Returns:
            The rows that have ended with it, by EOS or by their limit.
        """
        is_taken = (rows >= 0) & (self.limits[rows] > 0)
        rows, best = rows[is_taken], best[is_taken]
        is_token = best >= 0  # (B, K)
        index, step = is_token.nonzero()
        lengths = self.lengths[rows]
        self.tokens[rows[index], lengths[index] + step] = best[is_token]
        lengths += is_token.sum(axis=1)
        self.lengths[rows] = lengths
        has_ended = (best == self.eos_id).any(axis=1) | (lengths >= self.limits[rows])
        ended: list[int] = rows[has_ended].tolist()
        return ended

    def move(self, source: SequenceOf[int], target: SequenceOf[int]) -> None:
        """What was in row source[i] is now in row target[i]."""
        arrays: list[NDArray[np.generic]] = [self.tokens, self.lengths, self.limits]
        for values in arrays:
            values[target] = values[source]

    def target(self, row: int) -> list[int]:
        """The tokens of a row."""
        tokens: list[int] = self.tokens[row, : self.lengths[row]].tolist()
        return tokens
