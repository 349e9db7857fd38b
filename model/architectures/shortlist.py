"""Implements shortlists: the candidate target ids of a source sentence.

The candidates depend on the sentence alone, not on the rest of the batch.
"""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from model.errors import CheckpointFormatError
from model.regular_files import MAX_WEIGHT_BYTES, check_file

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
        rises = int(offsets.max()) == num_candidates and np.all(offsets[1:] >= offsets[:-1])
        if not rises:
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
