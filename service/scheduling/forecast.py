"""Predicts the time of new work: its pace, and a margin for errors.

**Pace** says how fast workers compute the items of one task kind and model. Work is counted in
row-tokens: a sentence of 20 tokens that takes 4 rows of a batch counts as 80 row-tokens. The
occupancy is the number of rows in use, summed over all workers. If the policy of the task kind does
not count rows, it is the number of tokens that the workers hold.

**Margin** says how much longer requests take than predicted. The error of a prediction grows about
as the square root of the predicted time, as for every sum of independent errors. Each request that
was long enough (RELEVANT_SHARE) and has ended gives a sample: its error divided by this root. The
main part of a new margin is a high quantile of the latest samples, times the square root of the new
predicted time. RATE_ERROR adds a part, and MAX_MARGIN limits the sum.
"""

import math
import time
from bisect import bisect_left, insort
from collections import deque
from dataclasses import dataclass, field

PACE_SECONDS = 2.0
"""The weight of a sample decreases with its age: after this time, the weight is about a third."""

MIN_SAMPLES = 8
"""Number of finished items before the first prediction."""

MAX_STRETCH = 2.0
"""Above MAX_STRETCH times the occupancy at which it was measured, the rate is assumed to grow with
the occupancy, because larger batches are more efficient. A burst on an idle server is therefore
admitted, and then measured. The fullest batches of the last minutes limit this growth: up to
MAX_STRETCH times their occupancy, the assumed rate is at most their rate."""

FULLEST_SECONDS = 600.0
"""The recorded occupancy of the fullest batches decreases slowly: to about a third in this time."""


class Pace:
    """The rate of one queue, measured from the items that finish.

    Each finished item is one sample: the time between its dispatch and its end, and the work that
    all workers did in this time. A count of finished tokens per second would be too low at the
    start of a burst, because the first items have not finished yet.
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
        """Adds an item that finished `now`, by time.perf_counter.

        In the seconds between its dispatch and its end, workers did `work` row-tokens for all rows.
        In this time, `occupancy` rows were in use (or tokens held).
        """
        age = now - self._last
        kept = math.exp(-age / PACE_SECONDS)
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
        """Predicts the time of row-tokens at an occupancy; 0 if too few items have finished."""
        if self.num_samples < MIN_SAMPLES or not self._work:
            return 0.0
        seconds = work * self._seconds / self._work
        limit = MAX_STRETCH * self._occupied / self._seconds if self._seconds else 0.0
        if occupancy <= limit:
            return seconds
        stretched = seconds * limit / occupancy
        if occupancy <= MAX_STRETCH * self._fullest:
            return min(seconds, max(stretched, work / self._fullest_rate))
        return stretched

    def is_known(self, occupancy: float) -> bool:
        """Returns whether the rate at an occupancy is measured, or limited by a measured rate."""
        latest = self._occupied / self._seconds if self._seconds else 0.0
        return occupancy <= MAX_STRETCH * max(latest, self._fullest)


LATE_SHARE = 0.004
"""Share of the samples above the quantile. About this share of the admitted requests is late."""

MARGIN_SECONDS = 10.0
"""Time for which a sample counts."""

FIRST_SAMPLES = (0.4, 0.4)
"""Samples that always count. They set the margin until requests have given samples."""

LATE_SAMPLE = 0.05
"""Difference between the sample of a late request, whose real time is unknown, and the sample of a
request that takes its whole time limit."""

RATE_ERROR = 0.05
"""Share of the predicted time that is always part of the margin. It covers errors of the measured
rate. The samples show such an error only later, when the first predicted requests have ended."""

MAX_MARGIN = 1.5
"""Largest margin, as a multiple of the predicted time. After an overload the samples are large, and
refused requests give no new samples, so the margin would stay too large."""

RELEVANT_SHARE = 0.25
"""A request gives a sample only if its predicted time is at least this share of its time limit.
Shorter requests are never refused, and their errors would hide those of longer requests."""


def is_relevant(expected: float, seconds: float) -> bool:
    """Returns whether a request is long enough to be refused and to give a sample."""
    return expected >= RELEVANT_SHARE * seconds


class Margin:
    """Keeps the samples of the last MARGIN_SECONDS."""

    def __init__(self) -> None:
        self._latest: deque[tuple[float, float]] = deque()  # time and sample, oldest first
        self._sorted = [*FIRST_SAMPLES]  # the same samples, and the first ones

    def add(self, expected: float, actual: float) -> None:
        sample = (actual - expected) / math.sqrt(expected)
        self._latest.append((time.perf_counter(), sample))
        insort(self._sorted, sample)

    def seconds_for(self, expected: float) -> float:
        """Returns the margin of a request in seconds; it may be negative."""
        end = time.perf_counter() - MARGIN_SECONDS
        while self._latest and self._latest[0][0] < end:
            _, sample = self._latest.popleft()
            del self._sorted[bisect_left(self._sorted, sample)]
        highest = self._sorted[-1 - int(LATE_SHARE * len(self._sorted))]
        margin = RATE_ERROR * expected + highest * math.sqrt(expected)
        return min(margin, MAX_MARGIN * expected)


@dataclass(slots=True, eq=False)
class Prediction:
    """The predicted time of one relevant request, which `end` compares with the real time."""

    margin: Margin
    expected: float
    seconds: float
    began: float = field(default_factory=lambda: time.perf_counter())

    def end(self, is_late: bool) -> None:
        """Adds the sample of a request that was answered, or that was too late."""
        actual = time.perf_counter() - self.began
        if is_late:
            actual = max(actual, self.seconds + LATE_SAMPLE * math.sqrt(self.expected))
        self.margin.add(self.expected, actual)
