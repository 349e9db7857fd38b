"""Copies the recorded attention of decode steps to the host, for the rows that ask for it."""

import math
from collections.abc import Callable
from collections.abc import Sequence as SequenceOf

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from model.backends.cuda.graphs import Downloads
from model.config import ModelConfig
from model.layers.attention import Recording

Weights = NDArray[np.float32]


class Records:
    """The weights of recording rows on the host, and buffers for those of one launch.

    `shape` has the largest numbers of decode steps, rows and source tokens of a launch. For 4 steps
    of 1,024 rows and 128 tokens, the buffer on the device takes 2 MiB, and so does each pinned one.
    """

    def __init__(
        self, config: ModelConfig, shape: tuple[int, int, int], device: torch.device, slots: int
    ) -> None:
        head = config.aligning_head
        self.heads = slice(None) if head is None else slice(head, head + 1)
        self.layer, self.width = config.aligning_layer, shape[2]
        self.weights = torch.zeros(math.prod(shape), device=device)
        self.downloads = Downloads(len(self.weights), device, slots, torch.float32)
        # The weights (tokens, source tokens) of each recording row, one part from each launch.
        self.of_rows: dict[int, list[Weights]] = {}

    def enter(self, row: int, source_tokens: int) -> None:
        self.of_rows[row] = [np.empty((0, source_tokens), np.float32)]

    def recordings(self, steps: int, rows: int) -> list[Recording]:
        parts = self._part(steps, rows).view(steps, rows, self.width)
        return [Recording(self.layer, self.heads, weights) for weights in parts]

    def fetch(self, steps: int, rows: int) -> Callable[[], None]:
        """Copies the weights of a launch; the returned function adds them to the present rows.

        These rows may have other numbers by then.
        """
        if not self.of_rows:
            return lambda: None
        slot, entries = self.downloads.fetch(self._part(steps, rows)), [*self.of_rows.items()]

        def add() -> None:
            slot.wait()
            weights = slot.numbers[: steps * rows * self.width].reshape(steps, rows, self.width)
            for row, parts in entries:
                parts.append(weights[:, row, : parts[0].shape[1]].copy())

        return add

    def _part(self, steps: int, rows: int) -> Tensor:
        return self.weights[: steps * rows * self.width]

    def read(self, row: int, tokens: int) -> Weights | None:
        return np.concatenate(self.of_rows[row])[:tokens] if row in self.of_rows else None

    def move(self, source: SequenceOf[int], target: SequenceOf[int]) -> None:
        if self.of_rows:
            pairs = zip(source, target, strict=True)
            moved = {new: self.of_rows.pop(old) for old, new in pairs if old in self.of_rows}
            kept = self.of_rows.keys() - set(target)
            self.of_rows = {row: self.of_rows[row] for row in kept} | moved

    def leave(self, first: int) -> None:
        self.of_rows = {row: parts for row, parts in self.of_rows.items() if row < first}
