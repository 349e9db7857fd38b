"""What an engine needs of a model on a device: rows of state, and one more token for each.

Rows are numbered by the engine, which keeps those in use dense: 0 to n - 1.
"""

from collections.abc import Sequence as SequenceOf
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from model.architectures.seq2seq import EncoderDecoder
from model.architectures.shortlist import Ids
from model.sequence import BatchStats, Sequence


@dataclass(frozen=True, slots=True)
class Scores:
    """Log-probabilities (k, U) of the k rows of one search, and the ids of the U columns."""

    log_probs: Tensor
    ids: Ids


@dataclass(frozen=True, slots=True)
class Decoded:
    """The outcome of one step, or of several that were computed in one go.

    Attributes:
        best: The likeliest id of each row at each step (B, K); -1 where it had ended before.
        scores: One for each group of rows that was asked for.
        padding_rows: How many were computed beside them for nothing.
    """

    best: NDArray[np.integer]
    scores: list[Scores] = field(default_factory=list)
    padding_rows: int = 0


class Pending(Protocol):
    """A step that may still be computed."""

    def wait(self) -> Decoded:
        """Its outcome, once it is there."""


@dataclass(frozen=True, slots=True)
class Ready:
    """A step that was computed at once."""

    decoded: Decoded

    def wait(self) -> Decoded:
        """It is there."""
        return self.decoded


class Runtime(Protocol):
    """A model on its device, with the state of all rows.

    Attributes:
        model: Whose config and device these are.
        lag: How many steps may be under way before the first one's outcome is wanted. Each row
            goes on with its likeliest token meanwhile.
        steps: Tokens of a row that one call of `decode` may give at most.
    """

    model: EncoderDecoder
    lag: int
    steps: int

    def clear(self) -> None:
        """Forgets every row; the way back after an error in the middle of a step."""

    def enter(self, row: int, sequences: SequenceOf[Sequence]) -> list[BatchStats]:
        """Encodes newcomers and gives each as many rows as its beam is wide, from `row` on."""

    def decode(
        self, rows: int, scored: SequenceOf[list[int]], remaining: Ids, max_steps: int
    ) -> Pending:
        """At least one more token for rows 0 to `rows` - 1, each going on with its likeliest.

        Args:
            rows: How many are in use.
            scored: Groups of rows whose log-probabilities are wanted; then it is one token.
            remaining: How many tokens of each row are wanted (B,); who computes several stops a
                row there, or at EOS.
            max_steps: No more tokens of a row than that, at least 1.
        """

    def set_tokens(self, rows: list[int], tokens: list[int]) -> None:
        """Has rows go on with other tokens than their likeliest."""

    def copy(self, source: list[int], target: list[int], is_same_source: bool) -> None:
        """Row target[i] becomes what row source[i] was before the call.

        Args:
            source: Rows.
            target: Rows, none twice.
            is_same_source: They translate the same sentence (a beam being reordered).
        """

    def leave(self, first: int, end: int) -> None:
        """Rows from `first` to `end` - 1 are no longer in use."""
