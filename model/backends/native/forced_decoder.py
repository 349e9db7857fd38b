"""Runs the native decoder over given targets, and returns its hidden states.

One native call of the decoder computes one token for each target. At most ROWS targets are decoded
together.
"""

import ctypes
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np
import torch
from torch import Tensor

from model.architectures.embedding import NO_TOKEN
from model.backends.native.library import address, check, int32
from model.backends.native.packed_model import PackedModel
from model.config import ModelConfig
from model.inspection.captures.capture import Slices

ROWS = 16
"""Number of targets that are decoded together."""


class NativeForcedDecoder:
    """Computes hidden states of given targets, with the same bits as the native decode steps.

    Args:
        config: Config of the model.
        packed: Weights of the model.
    """

    def __init__(self, config: ModelConfig, packed: PackedModel) -> None:
        self.packed = packed
        self.width = config.d_model
        self.start = NO_TOKEN if config.start_id is None else config.start_id

    def hidden(
        self, sources: Sequence[list[int]], targets: Sequence[list[int]]
    ) -> Slices[list[Tensor]]:
        """Returns the hidden states (T, D) from which the T tokens of each target are predicted.

        Args:
            sources: Source ids of each sentence, EOS included.
            targets: Target ids of each sentence.
        """
        found: list[Tensor] = []
        for first in range(0, len(sources), ROWS):
            part = slice(first, first + ROWS)
            found += yield from self._decode(sources[part], targets[part])
        return found

    def _decode(
        self, sources: Sequence[list[int]], targets: Sequence[list[int]]
    ) -> Slices[list[Tensor]]:
        library, count = self.packed.library, len(sources)
        hidden = [np.empty((len(target), self.width), np.float32) for target in targets]
        tokens, best = int32([self.start] * count), np.empty((count, 1), np.int32)
        with self._new_batch(count) as batch:
            for row, source in enumerate(sources):
                arrays = [*map(int32, ([len(source)], source, [1], [0], [NO_TOKEN]))]
                check(library.batch_enter(batch, row, 1, *map(address, arrays)))
                yield
            for step in range(max(map(len, targets))):
                rows = int32([row for row in range(count) if step < len(targets[row])])
                left = int32([step < len(target) for target in targets])
                places = address(left), address(tokens), address(best)
                check(library.batch_decode(batch, count, 1, *places))
                states = np.empty((len(rows), self.width), np.float32)
                check(library.batch_hidden(batch, len(rows), address(rows), address(states)))
                for row, state in zip(rows.tolist(), states, strict=True):
                    hidden[row][step] = state
                    tokens[row] = targets[row][step]
                yield
        return [torch.from_numpy(each) for each in hidden]

    @contextmanager
    def _new_batch(self, rows: int) -> Iterator[ctypes.c_void_p]:
        """Makes a batch, and frees it at the end."""
        batch = ctypes.c_void_p()
        check(self.packed.library.batch_new(self.packed.handle, rows, ctypes.byref(batch)))
        try:
            yield batch
        finally:
            self.packed.library.batch_delete(batch)
