"""The seeds of tests that run random cases."""

import itertools
import os
import time
from collections.abc import Iterator

FUZZ_SECONDS = float(os.environ.get("FUZZ_SECONDS", "1"))


def seeds(at_least: int = 5) -> Iterator[int]:
    """Yields 0, 1, 2 and so on, until FUZZ_SECONDS of the environment have passed.

    Every run begins with the same seeds, so that a fault that one run finds is found by the next.
    """
    end = time.monotonic() + FUZZ_SECONDS
    for seed in itertools.count():
        if seed >= at_least and time.monotonic() >= end:
            return
        yield seed
