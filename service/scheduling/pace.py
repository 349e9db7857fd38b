"""Measures how fast workers compute the items of one task kind and model, and predicts waits.

Work is counted in row-tokens: a sentence of 20 tokens that takes 4 rows of a batch has 80.
"""

import math

MEMORY_SECONDS = 2.0
"""Older samples have little weight: after this time, their weight is a third."""

MIN_SAMPLES = 8
"""Number of finished items before the first prediction."""

MAX_STRETCH = 2.0
"""The measured rate holds up to this multiple of the occupancy at which it was measured. Above it,
the rate is assumed to grow with the occupancy, because larger batches are more efficient. A burst
on an idle server is therefore admitted, and then measured."""


class Pace:
    """The rate of one queue, measured from the items that finish.

    Each finished item is one sample: the work that its workers did between its dispatch and its
    end, in the time that this took. Compared with counting finished tokens for some time, the
    samples are right from the first moment of a load, when nothing has finished yet.

    Attributes:
        num_samples: Number of samples.
    """

    def __init__(self) -> None:
        self.num_samples = 0
        self._work = 0.0
        self._seconds = 0.0
        self._occupied = 0.0  # occupancy times seconds
        self._last = -math.inf

    def add(self, work: float, seconds: float, occupancy: float, now: float) -> None:
        """Adds a finished item.

        Args:
            work: Work of all rows between the dispatch of the item and its end, in row-tokens.
            seconds: Time between its dispatch and its end.
            occupancy: Rows or tokens that the workers held meanwhile, in the unit of the policy.
            now: Time by time.perf_counter.
        """
        kept = math.exp((self._last - now) / MEMORY_SECONDS)
        self._last = now
        self._work = kept * self._work + work
        self._seconds = kept * self._seconds + seconds
        self._occupied = kept * self._occupied + occupancy * seconds
        self.num_samples += 1

    def seconds_for(self, work: float, occupancy: float) -> float:
        """Predicts the time that work takes; 0 if too few items have finished for a prediction.

        Args:
            work: Work in row-tokens.
            occupancy: Rows or tokens that the workers will hold meanwhile.
        """
        if self.num_samples < MIN_SAMPLES or not self._work:
            return 0.0
        seconds = work * self._seconds / self._work
        limit = MAX_STRETCH * self._occupied / self._seconds
        return seconds * limit / occupancy if occupancy > limit else seconds
