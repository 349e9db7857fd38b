"""Implements output layers for an in-flight batch, over the whole vocabulary or over shortlists.

A shortlist has the candidate target ids of a source sentence. They depend on the sentence alone.
Sentences enter and leave an in-flight batch while its other sentences are decoded.
"""

from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from model.architectures.stack import Decoder
from model.errors import CheckpointFormatError
from model.regular_files import MAX_WEIGHT_BYTES, check_file

NEVER = float("-inf")
MAGIC = 0xF11A48D5013417F5
HEADER_WORDS = 6

Ids = NDArray[np.int64]


class FixedShortlist:
    """Gives every sentence the same sorted candidates."""

    def __init__(self, candidates: NDArray[np.int32]) -> None:
        self.candidates = candidates

    def ids(self, source: list[int]) -> Ids:
        return self.candidates.astype(np.int64)


class Shortlist:
    """The candidates of each source id, and the frequent ids that every sentence may use.

    Ids 0 to `num_frequent` - 1 are frequent. The list of source id i is in `candidates` from
    offsets[i] to offsets[i + 1]. With `is_shared`, each id of the source is also a candidate.
    """

    def __init__(
        self,
        num_frequent: int,
        offsets: NDArray[np.uint64],
        candidates: NDArray[np.uint32],
        is_shared: bool,
    ) -> None:
        self.num_frequent = num_frequent
        self.frequent = np.arange(num_frequent, dtype=np.int32)
        self.offsets = offsets.astype(np.int64)
        self.candidates = candidates.view(np.int32)  # the bytes of the file, without a copy
        self.is_shared = is_shared

    @classmethod
    def read(
        cls, path: Path, source_vocab_size: int, target_vocab_size: int, is_shared: bool
    ) -> "Shortlist":
        """Reads a file with a header of six u64, the offsets as u64, and the candidates as u32.

        Source: marian-dev, src/data/shortlist.h, BinaryShortlistGenerator.
        """
        check_file(path, MAX_WEIGHT_BYTES)
        data = path.read_bytes()
        header = np.frombuffer(data, "<u8", HEADER_WORDS) if len(data) >= 48 else [0] * 6
        magic, _checksum, num_frequent, _best, num_offsets, num_candidates = map(int, header)
        if magic != MAGIC:
            raise CheckpointFormatError(f"{path.name} is not a binary shortlist")
        expected = 8 * (HEADER_WORDS + num_offsets) + 4 * num_candidates
        if len(data) != expected:
            raise CheckpointFormatError(
                f"{path.name} has {len(data)} bytes; its header says {expected}"
            )
        if num_offsets != source_vocab_size + 1:
            raise CheckpointFormatError(
                f"{path.name} lists {num_offsets - 1} source ids; "
                f"the vocabulary has {source_vocab_size}"
            )
        offsets = np.frombuffer(data, "<u8", num_offsets, offset=8 * HEADER_WORDS)
        lists = np.frombuffer(data, "<u4", num_candidates, offset=8 * (HEADER_WORDS + num_offsets))
        if int(offsets.max()) != num_candidates or np.any(offsets[1:] < offsets[:-1]):
            raise CheckpointFormatError(
                f"{path.name} has offsets that decrease, or do not end at its number of candidates"
            )
        if not num_frequent:
            raise CheckpointFormatError(
                f"{path.name} lists no frequent ids, so a sentence could have no candidates"
            )
        if max(num_frequent, 1 + int(lists.max(initial=0))) > target_vocab_size:
            raise CheckpointFormatError(
                f"{path.name} has ids beyond the vocabulary of {target_vocab_size}"
            )
        return cls(num_frequent, offsets, lists, is_shared)

    def ids(self, source: list[int]) -> Ids:
        lists = [self.candidates[self.offsets[i] : self.offsets[i + 1]] for i in set(source)]
        if self.is_shared:
            lists.append(np.array(source, dtype=np.int32))
        return np.unique(np.concatenate([self.frequent, *lists])).astype(np.int64)


AnyShortlist = FixedShortlist | Shortlist


class FullOutput:
    """Computes logits of the whole vocabulary, or of the same sorted `ids` for every row."""

    def __init__(
        self, decoder: Decoder, forbidden: list[int], multiple: int = 1, ids: Ids | None = None
    ) -> None:
        self.multiply = decoder.multiply
        self.weight = decoder.pad_output(multiple)
        self.scales = None if decoder.int8_output is None else decoder.int8_output.scales
        bias = decoder.output_bias.detach()
        self.bias = bias.new_full((len(self.weight),), NEVER)
        self.bias[: len(bias)] = bias
        self.bias[forbidden] = NEVER
        self.ids = ids
        if ids is not None:
            index = torch.from_numpy(ids).to(bias.device)
            self.weight, self.bias = self.weight[index], self.bias[index]
            self.scales = None if self.scales is None else self.scales[index]

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

    def float_logits(self, hidden: Tensor) -> Tensor:
        """Returns logits (B, columns) whose sums are not rounded to the precision of the model."""
        if hidden.is_cuda and hidden.dtype is not torch.float32:
            return torch.mm(hidden, self.weight.t(), out_dtype=torch.float32).add_(self.bias)
        return F.linear(hidden.float(), self.weight.float(), self.bias.float())

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
        self.column_of = np.full(len(self.bias), -1, np.int64)
        self.ids: Ids = np.empty(0, np.int64)
        self.rebuild_size = 0
        self.union_weight = torch.empty_like(self.weight)  # unused rows take no memory of a CPU
        self.union_scales = None if self.scales is None else torch.empty_like(self.scales)
        self.union_bias = torch.empty_like(self.bias)
        self.mask = torch.full((max_rows, len(self.bias)), NEVER, device=self.weight.device)

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
