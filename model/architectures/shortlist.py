"""The lexical shortlist: which target ids a source sentence may lead to.

The set depends on the sentence alone, never on its neighbours in a batch.
"""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from model.errors import CheckpointFormatError

MAGIC = 0xF11A48D5013417F5
HEADER_WORDS = 6

Ids = NDArray[np.int64]


class Shortlist:
    """Candidates for each source id, and the most frequent ids for all.

    Args:
        num_frequent: Ids 0 to this are candidates for every sentence.
        offsets: Where the candidates of each source id start (V_source + 1).
        candidates: All lists, one after the other, each sorted.
        is_shared: Source and target have one vocabulary: a source id is its own candidate.
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
        self.candidates = candidates.view(np.int32)  # as they lie in the file
        self.is_shared = is_shared

    @classmethod
    def read(
        cls, path: Path, source_vocab_size: int, target_vocab_size: int, is_shared: bool
    ) -> "Shortlist":
        """Reads Marian's binary form.

        Source: marian-dev, src/data/shortlist.h, BinaryShortlistGenerator: six u64 (magic,
        checksum, firstNum, bestNum, number of offsets, number of candidates), the offsets as
        u64, the candidates as u32, all little-endian.

        Raises:
            CheckpointFormatError: The file is cut short, damaged or for another vocabulary.
        """
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
            raise CheckpointFormatError(f"{path.name} has offsets that do not rise to its end")
        if not num_frequent:
            raise CheckpointFormatError(
                f"{path.name} has no ids for all sentences: one could be left without any"
            )
        if max(num_frequent, 1 + int(lists.max(initial=0))) > target_vocab_size:
            raise CheckpointFormatError(
                f"{path.name} has ids beyond the vocabulary of {target_vocab_size}"
            )
        return cls(num_frequent, offsets, lists, is_shared)

    def ids(self, source: list[int]) -> Ids:
        """The sorted ids that a translation of these source ids, EOS included, may use."""
        lists = [self.candidates[self.offsets[i] : self.offsets[i + 1]] for i in set(source)]
        if self.is_shared:
            lists.append(np.array(source, dtype=np.int32))
        return np.unique(np.concatenate([self.frequent, *lists])).astype(np.int64)
