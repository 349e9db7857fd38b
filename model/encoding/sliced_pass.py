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
    """A pass through a model; each call of `advance` computes one slice."""

    def __init__(self) -> None:
        self.slices = self.compute()
        self.is_done = False

    @abstractmethod
    def compute(self) -> Slices[None]:
        """Runs the whole pass, and yields between its slices."""

    @torch.inference_mode()
    def advance(self) -> bool:
        """Computes the next slice; returns False if the pass has ended."""
        for _ in self.slices:
            return True
        self.is_done = True
        return False


def padded_batches(
    jobs: Iterable[Job], length: Callable[[Job], int], max_tokens: int
) -> Iterator[list[Job]]:
    """Yields batches of jobs in the given order; the jobs must be sorted from short to long.

    Args:
        jobs: The jobs.
        length: Returns the number of tokens of a job.
        max_tokens: Largest number of tokens of a batch after each job is padded to the longest job.
            A job with more tokens is a batch by itself.
    """
    batch: list[Job] = []
    for job in jobs:
        if batch and (len(batch) + 1) * length(job) > max_tokens:
            yield batch
            batch = []
        batch.append(job)
    if batch:
        yield batch


def batches(
    jobs: Iterable[Job], lengths: Callable[[Job], tuple[int, ...]], max_tokens: int
) -> Iterator[list[Job]]:
    """Yields batches of jobs in the given order.

    Args:
        jobs: The jobs.
        lengths: Returns one or more lengths of a job in tokens, such as the lengths of its source
            and of its target.
        max_tokens: Limit for each kind of length. For example, the source lengths of a batch add
            up to at most `max_tokens`, and so do its target lengths. A job with a larger length is
            a batch by itself.
    """
    batch: list[Job] = []
    totals: tuple[int, ...] = ()
    for job in jobs:
        sizes = lengths(job)
        grown = tuple(map(add, totals, sizes)) if batch else sizes
        if batch and max(grown) > max_tokens:
            yield batch
            batch, grown = [], sizes
        batch.append(job)
        totals = grown
    if batch:
        yield batch
