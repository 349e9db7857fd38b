"""The figures of the benchmark of a Ray cluster."""

from collections import Counter

import pytest

from benchmarks.bench.load import End
from benchmarks.load import Replies
from benchmarks.ray_cluster import Retries


def replies(rates: list[int]) -> Replies:
    """Builds replies with a rate for each second, and one failure in the first one."""
    ends = [
        End(0.0, second + number / rate, None, 200)
        for second, rate in enumerate(rates)
        for number in range(rate)
    ]
    return Replies([End(0.0, 0.5, "closed"), *ends])


def test_rate_is_full_from_the_first_window_with_nearly_the_rate_before() -> None:
    measured = replies([100, 100, 50, 50, 50, 80, 100, 100, 100, 100])
    assert measured.rate(0, 2) == 100
    assert measured.lowest(2, 6) == pytest.approx(50)
    full = measured.full_from(3, 100)
    assert full is not None
    assert 5 < full <= 6.1
    assert measured.full_from(3, 200) is None


def test_retries_are_added_over_the_processes_of_haproxy() -> None:
    """A process with a new configuration counts from 0."""
    retries = Retries()
    for requests, repeated in [(100, 0), (200, 30), (10, 0), (50, 5)]:
        retries._add(Counter(stot=requests, wretr=repeated, wredis=0))
    assert (retries.total["stot"], retries.total["wretr"]) == (250, 35)
