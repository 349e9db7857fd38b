"""The seeds of tests that run random cases."""

import itertools
import os
import time
from collections.abc import Iterator

import pytest

FUZZ_SECONDS = float(os.environ.get("FUZZ_SECONDS", "0"))

fuzzed = pytest.mark.timeout(300 + FUZZ_SECONDS)
"""Marks tests that use `seeds`: they may take so much longer than others."""


def seeds() -> Iterator[int]:
    """Yields 0, 1, 2 and so on, at least ten numbers, and until FUZZ_SECONDS have passed.

    Every run begins with the same seeds, so that a fault that one run finds is found by the next.
    """
    end = time.monotonic() + FUZZ_SECONDS
    for seed in itertools.count():
        if seed >= 10 and time.monotonic() >= end:
            return
        yield seed
