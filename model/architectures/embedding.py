"""Implements token embeddings with sinusoid positions."""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from model.config import ModelConfig, Sinusoids
from model.layers.row_kernels import PLAIN, RowKernels, scaled
from model.quantization.int8 import Int8Matrix, QuantizedMatrix


@dataclass(frozen=True, slots=True)
class TokenParts:
    """The summands of the embeddings, and the sum, which some models normalise.

    Attributes:
        token: Vectors of the tokens (B, T, D), scaled as the model scales them.
        position: Vectors of the positions (B, T, D); None if the model does not add any.
        embedded: Input (B, T, D) of the first layer.
    """

    token: Tensor
    position: Tensor | None
    embedded: Tensor


NO_TOKEN = -1
"""Id whose token vector is all zeros. It is the first input of Marian's decoders."""


def start_token(config: ModelConfig) -> int:
    """Returns the first input of the decoder."""
    return NO_TOKEN if config.start_id is None else config.start_id


class Embedding(nn.Module):
    """Adds the vector of each token to the vector of its position.

    In most models, the token vector is first multiplied by sqrt(D).

    The position table is computed on first use and then kept. It grows only when a longer text
    needs more positions.
    """

    def __init__(self, vocab_size: int, config: ModelConfig) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(vocab_size, config.d_model))
        self.scale = config.d_model**0.5 if config.scales_embeddings else 1.0
        self.config = config
        table = torch.empty(0, config.d_model, device="cpu")  # checkpoints do not store it
        self.register_buffer("table", table, persistent=False)
        self.quantized: Int8Matrix | None = None
        self.scales = torch.empty(0)  # (V), the scales of an int8 table

    def quantize(self, matrix: QuantizedMatrix) -> None:
        """Replaces the float vectors by int8 vectors."""
        self.quantized = Int8Matrix(torch.from_numpy(matrix.values))
        self.scales = torch.from_numpy(matrix.scales)
        self.weight = nn.Parameter(torch.empty(0, self.config.d_model), requires_grad=False)

    def forward(
        self, tokens: Tensor, positions: Tensor, max_position: int, kernels: RowKernels = PLAIN
    ) -> Tensor:
        """Returns the embeddings (B, T, D) of tokens at positions.

        Args:
            tokens: Ids (B, T). The token vector of NO_TOKEN is zero.
            positions: Positions (B, T), from 0.
            max_position: Largest position that `positions` may contain.
            kernels: Kernels that compute the embeddings. An int8 model does not use them.
        """
        if self.quantized is not None:
            return self.parts(tokens, positions, max_position).embedded
        self.ensure_length(max_position)
        return kernels.embed(tokens, positions, self.weight, self.table, self.scale)

    def parts(self, tokens: Tensor, positions: Tensor, max_position: int) -> TokenParts:
        """Returns the embeddings and their summands; the arguments are those of `forward`."""
        self.ensure_length(max_position)
        vectors = scaled(self._vectors(tokens.clamp_min(0)), tokens, self.scale)
        position = F.embedding(positions, self.table)
        return TokenParts(vectors, position, vectors + position)

    def _vectors(self, tokens: Tensor) -> Tensor:
        if self.quantized is None:
            return F.embedding(tokens, self.weight)
        return self.quantized.rows(tokens).float() * self.scales[tokens, None]

    def ensure_length(self, position: int) -> None:
        """Extends the position table to include this position.

        Call this method with the largest position before CUDA graphs are captured. The extended
        table has a new address, but a captured graph goes on reading the table at the old address.
        """
        if position >= self.table.shape[0]:
            start, length = self.config.position_offset, max(128, 2 * position)
            table = sinusoid_table(start + length, self.config.d_model, self.config.sinusoids)
            self.table: Tensor = table[start:].to(self.weight)


def sinusoid_table(length: int, d_model: int, convention: Sinusoids) -> Tensor:
    """Returns position embeddings (length, d_model), float32: sines first, then cosines.

    There are n = d_model / 2 frequencies. Frequency k is 10000^(-k/(n-1)) in Marian, and
    10000^(-k/n) in the Hugging Face port of Marian.

    Source: Vaswani et al. 2017, section 3.5; marian-dev, src/graph/node_initializers.cpp.
    """
    n = d_model // 2
    divisor = n - 1 if convention is Sinusoids.MARIAN else n
    frequencies = 10000.0 ** (-torch.arange(n, dtype=torch.float64) / divisor)
    angles = torch.arange(length, dtype=torch.float64)[:, None] * frequencies  # (length, n)
    return torch.cat([angles.sin(), angles.cos()], dim=-1).float()
