"""Chooses the next slice of a worker's work on texts of different lengths: short texts first.

If only length decided, long texts would never be finished while short texts keep arriving. A share
of the work therefore goes to the oldest text. A slice is the part of a batch that one step
computes.
"""

from collections.abc import Sequence
from typing import Protocol, TypeVar

OLDEST_SHARE = 0.4
"""Share of the work that goes to the candidate with the oldest text, while another candidate has
shorter texts."""


class Candidate(Protocol):
    """A set of texts, whose computation can be continued by one slice."""

    @property
    def level(self) -> int:
        """Length bucket of its shortest texts; bucket 0 has the shortest texts."""

    @property
    def oldest(self) -> int:
        """Lowest id of its texts."""

    @property
    def cost(self) -> float:
        """Approximate cost of its next slice. All candidates have the same unit."""


Chosen = TypeVar("Chosen", bound=Candidate)


class Turns:
    """Divides the work between the shortest and the oldest texts.

    Attributes:
        debt: Work that OLDEST_SHARE assigns to the oldest text and that is not done yet. It has the
            unit of the costs.
    """

    def __init__(self) -> None:
        self.debt = 0.0

    def choose(self, candidates: Sequence[Chosen]) -> Chosen:
        """Returns the candidate for the next slice, usually the first of the lowest level.

        Args:
            candidates: Candidates with texts, at least one.
        """
        shortest = candidates[0]
        if len(candidates) == 1:
            return shortest
        shortest = min(candidates, key=lambda each: each.level)
        oldest = min(candidates, key=lambda each: each.oldest)
        if oldest.level == shortest.level:
            return shortest
        cost = oldest.cost
        if self.debt >= cost:
            self.debt -= cost
            return oldest
        self.debt += shortest.cost * OLDEST_SHARE / (1 - OLDEST_SHARE)
        return shortest
