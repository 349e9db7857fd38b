"""Continues the hypotheses of searches on the device, without the host.

`model.engine.beam` keeps the finished hypotheses, and follows the same rule for live ones.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from model.backends.base import Continuations
from model.backends.cuda.graphs import Slot

Integers = NDArray[np.int64]
Search = tuple[list[int], list[float]]
"""The rows of a search, and the sums of their log-probabilities."""

Pending = tuple[Slot, tuple[int, ...]]
"""The buffer for the continuations of launched steps, and its shape (steps, 3, G, 2 K)."""

NEVER = float("-inf")


def pack(searches: Sequence[Search], rows: int, groups: int, beam: int, padding: int) -> Integers:
    """Returns the fields of `SearchRows`, one after the other; `padding` is a spare row."""
    all_rows, places = np.full(rows, padding), np.zeros(rows, np.int64)
    sizes, members = np.zeros(groups, np.int64), np.zeros((groups, beam), np.int64)
    totals = np.full((groups, beam), NEVER)
    first = 0
    for number, (own, sums) in enumerate(searches):
        size = len(own)
        all_rows[first : first + size] = own
        places[first : first + size] = range(number * beam, number * beam + size)
        members[number, :size] = range(first, first + size)
        sizes[number], totals[number, :size] = size, sums
        first += size
    parts = all_rows, places, sizes, members, totals.view(np.int64)
    return np.concatenate([part.ravel() for part in parts])


@dataclass(frozen=True, slots=True)
class SearchRows:
    """The rows of G searches on the device. Each search is padded to K rows."""

    rows: Tensor  # (R,), of all searches, and then padding rows
    places: Tensor  # (R,), the index of each row in (G * K); 0 for padding rows
    sizes: Tensor  # (G, 1), number of rows of each search
    members: Tensor  # (G, K), the index in `rows` of each row; 0 for padding
    totals: Tensor  # (G, K), float64, sums of log-probabilities; `advance` updates them

    @classmethod
    def unpack(
        cls, packed: Tensor, totals: Tensor, rows: int, groups: int, beam: int
    ) -> "SearchRows":
        sizes, shape = [rows, rows, groups, groups * beam], (groups, beam)
        found, places, counts, members = packed[: sum(sizes)].split_with_sizes(sizes)
        known = totals[: groups * beam].view(shape)
        return cls(found, places, counts[:, None], members.view(shape), known)

    def advance(self, log_probs: Tensor, ids: Tensor, eos_id: int) -> tuple[Tensor, Tensor, Tensor]:
        """Chooses the next hypothesis of each row (see `ModelRunner.search`).

        `log_probs` and `ids` (R, W) are the most probable next tokens of each row. The result has
        the 2 K best continuations (3, G, 2 K), their totals as the bits of float64 numbers, their
        parents and their ids. It also has the next token and the parent's row of each row (R).
        """
        beam, width = self.members.shape[1], ids.shape[1]
        sums = self.totals[:, :, None] + log_probs.double()[self.members]  # (G, K, W)
        best = sums.flatten(1).topk(2 * beam)
        totals, parents = best.values, best.indices // width
        found = ids[self.members].flatten(1).gather(1, best.indices)
        ranks = torch.arange(2 * beam, device=ids.device)
        is_live = (found != eos_id) & (totals > NEVER) & (ranks < 2 * self.sizes)
        live_first = torch.where(is_live, ranks, ranks + 2 * beam)
        order = live_first.topk(beam, largest=False).indices  # (G, K)
        is_kept = is_live.gather(1, order) & (ranks[:beam] < self.sizes)
        order = torch.where(is_kept, order, order[:, :1])
        self.totals.copy_(totals.gather(1, order).masked_fill_(~is_kept, NEVER))
        parent_rows = self.rows[self.members.gather(1, parents.gather(1, order))]
        continuations = torch.stack([totals.view(torch.long), parents, found])
        # To copy the state of all (G, K) could take eight times the memory of that of R rows.
        next_ids = found.gather(1, order).flatten()[self.places]
        return continuations, next_ids, parent_rows.flatten()[self.places]


def results(
    pending: Sequence[Pending], parts: Sequence[Sequence[Search]]
) -> Iterator[list[Continuations]]:
    """Waits for the launches of all parts, and yields the continuations after each step."""
    for slot, _ in pending:
        slot.wait()
    arrays = [slot.numbers.reshape(shape) for slot, shape in pending]
    for step in range(len(arrays[0])):
        found = []
        for array, searches in zip(arrays, parts, strict=True):
            totals, parents, ids = array[step, 0].view(np.float64), *array[step, 1:]
            for number, (rows, _) in enumerate(searches):
                best = number, slice(2 * len(rows))
                lists = (values[best].tolist() for values in (totals, parents, ids))
                found.append(Continuations(*lists))
        yield found
