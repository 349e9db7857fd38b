"""The output layer of a batch whose rows come and go: over the whole vocabulary or shortlists."""

from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from model.architectures.decoder import Decoder
from model.architectures.shortlist import Ids, Shortlist

NEVER = float("-inf")


class OutputLayer(Protocol):
    """Hidden states to logits, for rows that enter, move and leave."""

    def enter(self, row: int, source: list[int]) -> None:
        """A new source sentence takes this row."""

    def move(self, source: list[int], target: list[int]) -> None:
        """What was in row source[i] is now in row target[i]."""

    def leave(self, row: int) -> None:
        """The row is empty."""

    def logits(self, hidden: Tensor) -> Tensor:
        """Float32 logits (B, U) of the first B rows for hidden states (B, D)."""

    def token_ids(self, columns: Ids) -> Ids:
        """The vocabulary ids of these columns of the logits."""


class FullOutput:
    """Every id is a column.

    Args:
        decoder: Whose output layer it is.
        forbidden: Ids that are never chosen.
    """

    def __init__(self, decoder: Decoder, forbidden: list[int]) -> None:
        self.multiply = decoder.multiply
        self.weight = decoder.output_weight.detach()
        self.bias = decoder.output_bias.detach().clone()
        self.bias[forbidden] = NEVER

    def enter(self, row: int, source: list[int]) -> None:
        """Nothing depends on the source."""

    def move(self, source: list[int], target: list[int]) -> None:
        """Nothing depends on the row."""

    def leave(self, row: int) -> None:
        """Nothing depends on the row."""

    def logits(self, hidden: Tensor) -> Tensor:
        """(B, V)."""
        return self.multiply(hidden, self.weight, self.bias)

    def write_logits(self, hidden: Tensor, logits: Tensor) -> None:
        """Fills logits (B, V), in the precision of the weights, for hidden states (B, D)."""
        torch.addmm(self.bias, hidden, self.weight.t(), out=logits)

    def token_ids(self, columns: Ids) -> Ids:
        """Columns are ids."""
        return columns


def force_first(logits: Tensor, positions: Tensor, first_ids: Tensor) -> None:
    """Leaves rows that are at position 0 no other choice than their own token, in place.

    Args:
        logits: (B, V).
        positions: (B,).
        first_ids: (B,), NO_TOKEN for a row that may begin with any.
    """
    columns = first_ids.clamp_min(0)[:, None]  # (B, 1)
    kept = logits.gather(1, columns)  # finite, so its log-probability becomes 0
    logits.masked_fill_(((positions == 0) & (first_ids >= 0))[:, None], NEVER)
    logits.scatter_(1, columns, kept)


class ShortlistOutput:
    """One product over the union of the rows' shortlists, and a mask that gives each row its own.

    The union grows at its end as sentences enter, and is made anew when it has doubled since
    the last time or is twice what the rows need, so that most steps copy no weights. Sums run
    over D alone: a logit does not depend on which other columns are there.

    Args:
        decoder: Whose output layer it is.
        forbidden: Ids that are never chosen.
        shortlist: Which ids a source may lead to.
        max_rows: Rows of the batch.
    """

    def __init__(
        self, decoder: Decoder, forbidden: list[int], shortlist: Shortlist, max_rows: int
    ) -> None:
        self.multiply = decoder.multiply
        self.weight = decoder.output_weight.detach()
        self.bias = decoder.output_bias.detach().clone()
        self.bias[forbidden] = NEVER
        self.shortlist = shortlist
        self.row_ids: list[Ids] = [np.empty(0, np.int64)] * max_rows
        self.column_of = np.full(self.weight.shape[0], -1, np.int64)
        self.ids = np.empty(0, np.int64)
        self.rebuild_size = 0
        self._allocate(4096)

    def _allocate(self, capacity: int) -> None:
        rows, (vocab_size, width) = len(self.row_ids), self.weight.shape
        self.capacity = min(capacity, vocab_size)
        self.union_weight = self.weight.new_empty(self.capacity, width)
        self.union_bias = self.bias.new_empty(self.capacity)
        self.mask = torch.full((rows, self.capacity), NEVER, device=self.weight.device)

    def enter(self, row: int, source: list[int]) -> None:
        """Adds the ids of a new source's shortlist to the union, and lets this row use them."""
        self.row_ids[row] = self.shortlist.ids(source)
        new = self.row_ids[row][self.column_of[self.row_ids[row]] < 0]
        size = len(self.ids) + len(new)
        # No more than twice what the rows can need, or a full batch would leave its union behind.
        needed = min(self.rebuild_size, sum(map(len, self.row_ids)))
        if size > self.capacity or size > max(2 * needed, 1024):
            self._rebuild()
        else:
            self._append(new)
            self._mask(row)

    def move(self, source: list[int], target: list[int]) -> None:
        """Rows keep their shortlists when they move."""
        moved = [self.row_ids[row] for row in source]
        for row, ids in zip(target, moved, strict=True):
            self.row_ids[row] = ids
        self.mask[target] = self.mask[source]

    def leave(self, row: int) -> None:
        """The row is empty: its ids are not carried into the next union."""
        self.row_ids[row] = np.empty(0, np.int64)

    def logits(self, hidden: Tensor) -> Tensor:
        """(B, U), -inf outside a row's own shortlist."""
        size = len(self.ids)
        products = self.multiply(hidden, self.union_weight[:size], self.union_bias[:size])
        return products + self.mask[: hidden.shape[0], :size]

    def token_ids(self, columns: Ids) -> Ids:
        """Columns stand in the order in which their ids came."""
        ids: Ids = self.ids[columns]
        return ids

    def _rebuild(self) -> None:
        union = np.unique(np.concatenate(self.row_ids))
        self.column_of.fill(-1)
        self.ids = np.empty(0, np.int64)
        self.rebuild_size = len(union)
        if 2 * len(union) > self.capacity:
            self._allocate(2 * len(union))
        self._append(union)
        for row, ids in enumerate(self.row_ids):
            if len(ids):
                self._mask(row)

    def _append(self, new: Ids) -> None:
        start, end = len(self.ids), len(self.ids) + len(new)
        self.column_of[new] = np.arange(start, end)
        self.ids = np.concatenate([self.ids, new])
        index = torch.from_numpy(new).to(self.weight.device)
        self.union_weight[start:end] = self.weight[index]
        self.union_bias[start:end] = self.bias[index]
        self.mask[:, start:end] = NEVER

    def _mask(self, row: int) -> None:
        columns = torch.from_numpy(self.column_of[self.row_ids[row]]).to(self.mask.device)
        self.mask[row] = NEVER
        self.mask[row, columns] = 0.0
