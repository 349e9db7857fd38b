"""Token vectors plus position vectors."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from model.config import ModelConfig
from model.layers.positions import sinusoid_table
from model.quantization.int8 import QuantizedMatrix

NO_TOKEN = -1
"""Stands for the zero vector that Marian's decoders start from."""


class Embedding(nn.Module):
    """The token's vector, times sqrt(D) in most models, plus the position's.

    Positions are computed on first need and kept, so that a table of any length costs nothing
    until a text is that long.
    """

    def __init__(self, vocab_size: int, config: ModelConfig) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(vocab_size, config.d_model))
        self.scale = config.d_model**0.5 if config.scales_embeddings else 1.0
        self.config = config
        table = torch.empty(0, config.d_model, device="cpu")  # of this one, no file tells
        self.register_buffer("table", table, persistent=False)
        self.quantized: Tensor | None = None
        self.multiplier = 1.0

    def quantize(self, matrix: QuantizedMatrix) -> None:
        """Keeps the vectors in int8, which is what they were before they were made floats."""
        self.quantized = torch.from_numpy(matrix.values)
        self.multiplier = matrix.multiplier
        self.weight = nn.Parameter(torch.empty(0, self.config.d_model), requires_grad=False)

    def forward(self, tokens: Tensor, positions: Tensor, max_position: int) -> Tensor:
        """(B, T, D) for tokens and positions (B, T); NO_TOKEN gives the position alone.

        Args:
            tokens: Ids.
            positions: From 0.
            max_position: No position is larger.
        """
        self.reach(max_position)
        vectors = self._vectors(tokens.clamp_min(0)) * self.scale
        vectors = vectors.masked_fill((tokens == NO_TOKEN).unsqueeze(-1), 0.0)
        embedded: Tensor = vectors + F.embedding(positions, self.table)
        return embedded

    def _vectors(self, tokens: Tensor) -> Tensor:
        if self.quantized is None:
            return F.embedding(tokens, self.weight)
        return F.embedding(tokens, self.quantized).float() / self.multiplier

    def reach(self, position: int) -> None:
        """Has the table reach this position at least; where it did not, it lies elsewhere then."""
        if position >= self.table.shape[0]:
            start, length = self.config.position_offset, max(128, 2 * position)
            table = sinusoid_table(start + length, self.config.d_model, self.config.sinusoids)
            self.table: Tensor = table[start:].to(self.weight)
