"""Implements output layers for an in-flight batch: one vocabulary for all rows, or shortlists.

Sentences enter and leave an in-flight batch while its other sentences are decoded.
"""

import numpy as np
import torch
from torch import Tensor

from model.architectures.seq2seq import Decoder
from model.architectures.shortlist import Ids, Shortlist

NEVER = float("-inf")


class FullOutput:
    """Computes logits of the whole vocabulary, or of the same sorted `ids` for every row."""

    def __init__(
        self, decoder: Decoder, forbidden: list[int], multiple: int = 1, ids: Ids | None = None
    ) -> None:
        self.multiply = decoder.multiply
        self.weight = decoder.pad_output(multiple)
        self.scales = decoder.output_scales
        bias = decoder.output_bias.detach()
        self.bias = bias.new_full((len(self.weight),), NEVER)
        self.bias[: len(bias)] = bias
        self.bias[forbidden] = NEVER
        self.ids = ids
        if ids is not None:
            index = torch.from_numpy(ids).to(bias.device)
            self.weight, self.bias = self.weight[index], self.bias[index]
            self.scales = None if self.scales is None else self.scales[index]

    @property
    def columns(self) -> int:
        return len(self.bias)

    def enter(self, row: int, source: list[int]) -> None:
        """Assigns a new source sentence to this row."""

    def move(self, source: list[int], target: list[int]) -> None:
        """Moves the state of row source[i], if rows have any, to row target[i]."""

    def leave(self, row: int) -> None: ...

    def logits(self, hidden: Tensor) -> Tensor:
        """Returns float32 logits (B, U), for hidden states (B, D) of the first B rows."""
        return self.multiply(hidden, self.weight, self.scales, self.bias)

    def write_logits(self, hidden: Tensor, logits: Tensor) -> None:
        """Writes logits (B, columns) of hidden states (B, D), in the precision of float weights."""
        torch.addmm(self.bias, hidden, self.weight.t(), out=logits)

    def token_ids(self, columns: Ids) -> Ids:
        return columns if self.ids is None else self.ids[columns]


def force_first(logits: Tensor, positions: Tensor, first_ids: Tensor) -> None:
    """Masks all ids but the one in `first_ids` in rows at position 0."""
    columns = first_ids.clamp_min(0)[:, None]  # (B, 1)
    kept = logits.gather(1, columns)  # the only finite logit of a masked row
    logits.masked_fill_(((positions == 0) & (first_ids >= 0))[:, None], NEVER)
    logits.scatter_(1, columns, kept)


class ShortlistOutput(FullOutput):
    """Computes logits for the union of the rows' shortlists; masks ids outside a row's shortlist.

    A union of more than 1,024 ids may not exceed twice its size after the last rebuild. It may not
    exceed twice the summed sizes of the shortlists in use. No logit depends on the other ids.
    """

    def __init__(
        self, decoder: Decoder, forbidden: list[int], shortlist: Shortlist, max_rows: int
    ) -> None:
        super().__init__(decoder, forbidden)
        self.shortlist = shortlist
        self.row_ids: list[Ids] = [np.empty(0, np.int64)] * max_rows
        self.column_of = np.full(self.columns, -1, np.int64)
        self.ids: Ids = np.empty(0, np.int64)
        self.rebuild_size = 0
        self.union_weight = torch.empty_like(self.weight)  # unused rows take no memory of a CPU
        self.union_scales = None if self.scales is None else torch.empty_like(self.scales)
        self.union_bias = torch.empty_like(self.bias)
        self.mask = torch.full((max_rows, self.columns), NEVER, device=self.weight.device)

    def enter(self, row: int, source: list[int]) -> None:
        self.row_ids[row] = self.shortlist.ids(source)
        new = self.row_ids[row][self.column_of[self.row_ids[row]] < 0]
        size = len(self.ids) + len(new)
        # After the batch has shrunk, `rebuild_size` is still large, but the sum of the rows'
        # shortlist sizes is small. Without the sum, the union would remain large.
        needed = min(self.rebuild_size, sum(map(len, self.row_ids)))
        if size > max(2 * needed, 1024):
            self._rebuild()
        else:
            self._append(new)
            self._mask(row)

    def move(self, source: list[int], target: list[int]) -> None:
        moved = [self.row_ids[row] for row in source]
        for row, ids in zip(target, moved, strict=True):
            self.row_ids[row] = ids
        self.mask[target] = self.mask[source]

    def leave(self, row: int) -> None:
        self.row_ids[row] = np.empty(0, np.int64)

    def logits(self, hidden: Tensor) -> Tensor:
        size = len(self.ids)
        scales = None if self.union_scales is None else self.union_scales[:size]
        union = self.union_weight[:size], scales, self.union_bias[:size]
        products = self.multiply(hidden, *union)
        return products + self.mask[: hidden.shape[0], :size]

    def _rebuild(self) -> None:
        union = np.unique(np.concatenate(self.row_ids))
        self.column_of.fill(-1)
        self.ids = np.empty(0, np.int64)
        self.rebuild_size = len(union)
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
        if self.scales is not None and self.union_scales is not None:
            self.union_scales[start:end] = self.scales[index]
        self.mask[:, start:end] = NEVER

    def _mask(self, row: int) -> None:
        columns = torch.from_numpy(self.column_of[self.row_ids[row]]).to(self.mask.device)
        self.mask[row] = NEVER
        self.mask[row, columns] = 0.0
