"""Measures how fast workers compute the items of one task kind and model, and predicts waits.

Work is counted in row-tokens: a sentence of 20 tokens that takes 4 rows of a batch counts as 80
row-tokens. The occupancy is the number of rows in use, summed over all workers. If the policy of
the task kind does not count rows, the occupancy is the number of tokens that the workers hold.
"""

import math

MEMORY_SECONDS = 2.0
"""The weight of a sample decreases with its age: after this time, the weight is about a third."""

MIN_SAMPLES = 8
"""Number of finished items before the first prediction."""

MAX_STRETCH = 2.0
"""The measured rate is used up to MAX_STRETCH times the occupancy at which it was measured. Above
this occupancy, the rate is assumed to grow with the occupancy, because larger batches are more
efficient. A burst on an idle server is therefore admitted, and then measured.

The fullest batches of the last minutes are those with the largest occupancy. They limit this
growth: up to MAX_STRETCH times their occupancy, the assumed rate does not grow above their rate.
"""

FULLEST_SECONDS = 600.0
"""The recorded occupancy of the fullest batches decreases slowly: to about a third in this time."""


class Pace:
    """The rate of one queue, measured from the items that finish.

    Each finished item is one sample. The sample has the time between the dispatch of the item and
    its end, and the work that all workers did in this time. A count of finished tokens per second
    would be too low at the start of a burst, because the first items have not finished yet. The
    samples do not have this error.

    Attributes:
        num_samples: Number of samples.
    """

    def __init__(self) -> None:
        self.num_samples = 0
        self._work = 0.0
        self._seconds = 0.0
        self._occupied = 0.0  # occupancy times seconds
        self._last = -math.inf
        self._fullest = 0.0  # largest occupancy of the last minutes
        self._fullest_rate = 0.0  # work per second at this occupancy

    def add(self, work: float, seconds: float, occupancy: float, now: float) -> None:
        """Adds a finished item.

        Args:
            work: Work of all rows between the dispatch of the item and its end, in row-tokens.
            seconds: Time between the dispatch of the item and its end.
            occupancy: Rows in use (or tokens held) in this time, as `Policy.occupancy` counts them.
            now: Time by time.perf_counter.
        """
        age = now - self._last
        kept = math.exp(-age / MEMORY_SECONDS)
        self._last = now
        self._work = kept * self._work + work
        self._seconds = kept * self._seconds + seconds
        self._occupied = kept * self._occupied + occupancy * seconds
        self.num_samples += 1
        self._fullest *= math.exp(-age / FULLEST_SECONDS)
        measured = self._occupied / self._seconds if self._seconds else 0.0
        if self.num_samples >= MIN_SAMPLES and measured >= self._fullest:
            self._fullest, self._fullest_rate = measured, self._work / self._seconds

    def seconds_for(self, work: float, occupancy: float) -> float:
        """Predicts the time that work takes; 0 if too few items have finished for a prediction.

        Args:
            work: Work in row-tokens.
            occupancy: Rows or tokens that the workers will hold meanwhile.
        """
        if self.num_samples < MIN_SAMPLES or not self._work:
            return 0.0
        seconds = work * self._seconds / self._work
        limit = self._known_occupancy
        if occupancy <= limit:
            return seconds
        stretched = seconds * limit / occupancy
        if occupancy <= MAX_STRETCH * self._fullest:
            return min(seconds, max(stretched, work / self._fullest_rate))
        return stretched

    def is_known(self, occupancy: float) -> bool:
        """Returns whether the rate at an occupancy is measured, or limited by a measured rate."""
        return occupancy <= max(self._known_occupancy, MAX_STRETCH * self._fullest)

    @property
    def _known_occupancy(self) -> float:
        """Returns the largest occupancy for which the latest measured rate holds."""
        return MAX_STRETCH * self._occupied / self._seconds if self._seconds else 0.0
