"""The runner of a model that sleeps: every sentence is its own translation."""

import time
from collections.abc import Sequence as SequenceOf
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch

from benchmarks.sleeping.pace import Pace
from model.architectures.output import Ids
from model.backends.base import Decoded, DecodeStep, ModelRunner, completed_step
from model.config import ModelConfig
from model.precision import Precision
from model.sequence import BatchStats, Sequence

ENDED = -1


class SleepingRunner(ModelRunner):
    """A runner that sleeps instead of computing.

    A target has the same tokens as its source, and therefore the same text. Each step decodes one
    token per row. Beam search, scores and attention are not supported.
    """

    def __init__(self, config: ModelConfig, pace: Pace) -> None:
        self.model: Any = SimpleNamespace(
            config=config, device=torch.device("cpu"), precision=Precision.FLOAT32
        )
        self.pace = pace
        self.clear()

    def clear(self) -> None:
        self.targets: dict[int, list[int]] = {}
        self.positions: dict[int, int] = {}

    def enter(self, row: int, sequences: SequenceOf[Sequence]) -> list[BatchStats]:
        """Sleeps for the time of the encoder, and assigns a row to each sequence."""
        tokens = sum(len(sequence.source) for sequence in sequences)
        time.sleep(tokens * self.pace.encode_ms / 1000)
        for number, sequence in enumerate(sequences, row):
            self.targets[number], self.positions[number] = sequence.source, 0
        return [BatchStats("encode", len(sequences), tokens, 0)]

    def decode(
        self, rows: int, scored: SequenceOf[list[int]], remaining: Ids, max_tokens: int
    ) -> DecodeStep:
        """Sleeps for the time of a step, and returns the next token of every row."""
        if scored:
            raise ValueError(
                "the sleeping model has no scores; request one translation without scores"
            )
        time.sleep((self.pace.step_ms + rows * self.pace.row_ms) / 1000)
        best = np.full((rows, 1), ENDED)
        for row in np.flatnonzero(remaining[:rows]).tolist():
            best[row] = self.targets[row][self.positions[row]]
            self.positions[row] += 1
        return completed_step(Decoded(best))

    def set_tokens(self, rows: list[int], tokens: list[int]) -> None:
        raise NotImplementedError

    def copy(self, source: list[int], target: list[int], is_same_source: bool) -> None:
        del is_same_source
        copied = [(self.targets[row], self.positions[row]) for row in source]
        for row, (tokens, position) in zip(target, copied, strict=True):
            self.targets[row], self.positions[row] = tokens, position

    def leave(self, first: int, end: int) -> None:
        for row in range(first, end):
            del self.targets[row], self.positions[row]
