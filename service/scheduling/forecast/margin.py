"""Measures how much longer requests take than predicted, and sets the margin of new predictions.

The margin is added to the predicted time of a request, so that few admitted requests are late. A
request takes many decode steps, and some steps are slower than others. The error of a prediction
grows about as the square root of the predicted time, as for every sum of independent errors. Each
request that was long enough (RELEVANT_SHARE) and has ended gives a sample: its error divided by
this root. The main part of the new margin is a high quantile of the latest samples, times the
square root of the new predicted time. RATE_ERROR adds a part, and MAX_STRETCH limits the sum.
"""

import math
import time

LATE_SHARE = 0.004
"""Share of the samples above the quantile. About this share of the admitted requests is late."""

MEMORY_SECONDS = 10.0
"""The weight of a sample decreases with its age: after this time, the weight is about a third."""

BIN = 0.05
LOWEST = -1.0
NUM_BINS = 120
"""Samples are counted in NUM_BINS bins of width BIN; the first bin begins at LOWEST. The first bin
also counts lower samples, and the last bin also counts higher samples."""

FIRST_SAMPLE = 0.4
FIRST_WEIGHT = 2.0
"""Value and weight of a sample that is always present and does not age. It sets the margin until
requests have given samples."""

RATE_ERROR = 0.05
"""Share of the predicted time that is always part of the margin. It covers errors of the measured
rate. The samples show such an error only later, when the first predicted requests have ended."""

MAX_STRETCH = 1.5
"""Largest margin, as a multiple of the predicted time. After an overload the samples are large.
Without this limit, the server would refuse requests that it could finish in time. Refused requests
give no new samples, so the margin would stay too large."""

RELEVANT_SHARE = 0.25
"""A request gives a sample only if its predicted time is at least this share of its time limit.
Shorter requests are never refused: their predicted time plus the largest margin is below the time
limit. The errors of shorter requests would hide the errors of longer requests."""


def is_relevant(expected: float, seconds: float) -> bool:
    """Returns whether a request is long enough to be refused and to give a sample.

    Args:
        expected: Predicted time in seconds.
        seconds: Time limit of the request, in seconds.
    """
    return expected >= RELEVANT_SHARE * seconds


class Margin:
    """Counts samples in bins; a newer sample has a larger weight."""

    def __init__(self) -> None:
        self._bins = [0.0] * NUM_BINS
        self._total = 0.0
        self._weight = 1.0
        self._last = time.perf_counter()

    def add(self, expected: float, actual: float) -> None:
        """Adds a request that has ended.

        Args:
            expected: Predicted time in seconds.
            actual: Real time of the request, in seconds.
        """
        self._weight = self._weight_now()
        self._last = time.perf_counter()
        if self._weight > 1e9:
            self._bins = [each / self._weight for each in self._bins]
            self._total /= self._weight
            self._weight = 1.0
        self._bins[bin_of((actual - expected) / math.sqrt(expected))] += self._weight
        self._total += self._weight

    def _weight_now(self) -> float:
        """Returns the weight of a sample that is added now.

        Later samples get larger weights, so that the stored weights of old samples stay as they
        are. Compared with a new sample, an old sample loses weight as MEMORY_SECONDS describes.
        """
        age = min(time.perf_counter() - self._last, 100 * MEMORY_SECONDS)
        return self._weight * math.exp(age / MEMORY_SECONDS)

    def seconds_for(self, expected: float) -> float:
        """Returns the margin of a request in seconds; the margin may be negative.

        Args:
            expected: Predicted time in seconds.
        """
        first = FIRST_WEIGHT * self._weight_now()
        first_bin = bin_of(FIRST_SAMPLE)
        above = LATE_SHARE * (self._total + first)
        for index in reversed(range(NUM_BINS)):
            above -= self._bins[index] + (first if index == first_bin else 0.0)
            if above < 0:
                break
        highest = LOWEST + BIN * (index + 1)  # upper end of the bin with the quantile
        margin = RATE_ERROR * expected + highest * math.sqrt(expected)
        return min(margin, MAX_STRETCH * expected)


def bin_of(sample: float) -> int:
    """Returns the index of the bin of a sample."""
    return min(NUM_BINS - 1, max(0, int((sample - LOWEST) / BIN)))


class Prediction:
    """The predicted time of one relevant request, which `end` compares with the real time.

    Args:
        margin: Receives the sample.
        expected: Predicted time in seconds, above 0.
        seconds: Time limit of the request, in seconds.
    """

    __slots__ = ("began", "expected", "margin", "seconds")

    def __init__(self, margin: Margin, expected: float, seconds: float) -> None:
        self.margin = margin
        self.expected = expected
        self.seconds = seconds
        self.began = time.perf_counter()

    def end(self, is_late: bool) -> None:
        """Adds the sample of a request that was answered, or that was too late.

        A request that is too late ends before it is computed, so its real time is not known. Its
        sample is at least one bin above the sample of a request that takes the whole time limit.
        """
        actual = time.perf_counter() - self.began
        if is_late:
            actual = max(actual, self.seconds + BIN * math.sqrt(self.expected))
        self.margin.add(self.expected, actual)
