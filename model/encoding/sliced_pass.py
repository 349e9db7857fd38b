"""Runs forward passes in slices, and groups their jobs into batches.

A slice is a part of a pass, such as half a layer of a batch. Between two slices a worker can do
other work.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from operator import add
from typing import TypeVar

import torch

from model.inspection.captures.capture import Slices

Job = TypeVar("Job")


class SlicedPass(ABC):
    def __init__(self) -> None:
        self.slices = self.compute()
        self.is_done = False

    @abstractmethod
    def compute(self) -> Slices[None]:
        """Runs the whole pass, and yields between its slices."""

    @torch.inference_mode()
    def advance(self) -> bool:
        """Returns False if the pass has ended."""
        for _ in self.slices:
            return True
        self.is_done = True
        return False


def batches(
    jobs: Iterable[Job],
    lengths: Callable[[Job], tuple[int, ...]],
    max_tokens: int,
    pads: bool = False,
) -> Iterator[list[Job]]:
    """Yields batches of jobs in the given order.

    `lengths` returns one or more lengths of a job in tokens, such as those of source and target.
    The lengths of each kind add up to at most `max_tokens` in a batch of more than one job. With
    `pads`, all jobs of a batch count as its longest job. They must be sorted from short to long.
    """
    batch: list[Job] = []
    totals: tuple[int, ...] = ()
    for job in jobs:
        sizes = grown = lengths(job)
        if batch and pads:
            grown = tuple(size * (len(batch) + 1) for size in sizes)
        elif batch:
            grown = tuple(map(add, totals, sizes))
        if batch and max(grown) > max_tokens:
            yield batch
            batch, grown = [], sizes
        batch.append(job)
        totals = grown
    if batch:
        yield batch
