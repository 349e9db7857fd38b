"""Records the attention of decode steps for the rows that ask for it, and copies it to the host."""

from collections.abc import Callable
from collections.abc import Sequence as SequenceOf
from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from model.backends.cuda.graphs import Downloads
from model.backends.decoder_batch import Recording
from model.config import ModelConfig

Weights = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Record:
    """The weights (tokens, source tokens) of a sequence, one part from each launch."""

    source_tokens: int
    parts: list[Weights] = field(default_factory=list)


class Records:
    """The records of rows in use, and the buffers of one launch for all `max_rows` rows.

    The host keeps the weights of a sequence. For four tokens of 1,024 rows with sources of
    128 tokens, the buffer on the device takes 2 MiB. Each pinned buffer takes as much.
    """

    def __init__(
        self,
        config: ModelConfig,
        max_rows: int,
        max_tokens: int,
        source_width: int,
        device: torch.device,
        slots: int,
    ) -> None:
        head = config.aligning_head
        self.layer = config.aligning_layer
        self.heads = slice(None) if head is None else slice(head, head + 1)
        self.source_width = source_width
        self.weights = torch.zeros(max_tokens * max_rows * source_width, device=device)
        self.downloads = Downloads(len(self.weights), device, slots, torch.float32)
        self.of_rows: dict[int, Record] = {}

    def enter(self, row: int, source_tokens: int) -> None:
        self.of_rows[row] = Record(source_tokens)

    def recordings(self, tokens: int, rows: int) -> list[Recording]:
        """Returns the recording of each decode step of a launch."""
        parts = self._part(tokens, rows).view(tokens, rows, self.source_width)
        return [Recording(self.layer, self.heads, weights) for weights in parts]

    def fetch(self, tokens: int, rows: int) -> Callable[[], None]:
        """Copies the weights of a launch; the returned function adds them to the records.

        A row may have another record by then, if its sequence has left.
        """
        slot, records = self.downloads.fetch(self._part(tokens, rows)), [*self.of_rows.items()]

        def add() -> None:
            slot.wait()
            count = tokens * rows * self.source_width
            weights = slot.numbers[:count].reshape(tokens, rows, self.source_width)
            for row, record in records:
                record.parts.append(weights[:, row, : record.source_tokens].copy())

        return add

    def _part(self, tokens: int, rows: int) -> Tensor:
        return self.weights[: tokens * rows * self.source_width]

    def read(self, row: int, tokens: int) -> Weights | None:
        record = self.of_rows.get(row)
        return None if record is None else np.concatenate(record.parts)[:tokens]

    def move(self, source: SequenceOf[int], target: SequenceOf[int]) -> None:
        if self.of_rows:
            pairs = zip(source, target, strict=True)
            moved = {new: self.of_rows.pop(old) for old, new in pairs if old in self.of_rows}
            kept = self.of_rows.keys() - set(target)
            self.of_rows = {row: self.of_rows[row] for row in kept} | moved

    def leave(self, first: int) -> None:
        for row in [row for row in self.of_rows if row >= first]:
            del self.of_rows[row]
