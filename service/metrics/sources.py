"""Interfaces of the objects from which the metrics take their figures."""

from collections.abc import Mapping
from typing import Protocol

from model.sequence import BatchStats


class WatchedLane(Protocol):
    """A queue that reports its length, its tokens and the age of its oldest item."""

    def __len__(self) -> int:
        """Number of waiting items."""

    @property
    def tokens(self) -> int:
        """Number of tokens in all waiting items."""

    @property
    def oldest_age(self) -> float:
        """Seconds that the oldest item has waited; 0 in an empty queue."""


class WorkerFigures(Protocol):
    """The figures in a device worker's report."""

    @property
    def batches(self) -> Mapping[str, Mapping[BatchStats, int]]:
        """For each model, maps the shape of a batch to the number of calls with this shape."""

    @property
    def splits(self) -> Mapping[str, int]:
        """Number of failing batches that were split, for each model."""

    @property
    def out_of_memory(self) -> Mapping[str, int]:
        """Number of times that the device ran out of memory, for each model."""

    @property
    def memory_bytes(self) -> Mapping[str, int]:
        """Maps each kind of memory (resident, allocated, reserved, peak) to its bytes."""
