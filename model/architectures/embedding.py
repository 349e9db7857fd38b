"""Implements embeddings of tokens and positions."""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from model.config import ModelConfig, Sinusoids, TextEncoderConfig
from model.layers.attention import PLAIN, RowKernels, new_norm, scaled
from model.quantization.int8 import Int8Matrix, QuantizedMatrix


@dataclass(frozen=True, slots=True)
class TokenParts:
    """The scaled vectors of tokens, those of positions if there are any, and the first input."""

    token: Tensor  # (B, T, D)
    position: Tensor | None  # (B, T, D)
    embedded: Tensor  # (B, T, D), the sum, which some models normalise


NO_TOKEN = -1
"""Id whose token vector is all zeros. It is the first input of Marian's decoders."""


def start_token(config: ModelConfig) -> int:
    return NO_TOKEN if config.start_id is None else config.start_id


class Embedding(nn.Module):
    """Adds the vector of each token to the vector of its position.

    In most models, the token vector is first multiplied by sqrt(D). The table of sinusoids is
    computed on first use, and grows when a longer text needs more positions. Other models have a
    learned table, or no vectors of positions.
    """

    def __init__(self, vocab_size: int, config: ModelConfig) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(vocab_size, config.d_model))
        self.scale = config.d_model**0.5 if config.scales_embeddings else 1.0
        self.config = config
        self.positions: nn.Parameter | None = None
        if config.max_positions:
            self.positions = nn.Parameter(torch.empty(config.max_positions, config.d_model))
        self.norm: nn.Module = nn.Identity()
        if config.norms_embedding:
            self.norm = new_norm(config.d_model, config.encoder_block.norm)
        table = torch.empty(0, config.d_model, device="cpu")  # checkpoints do not store it
        self.register_buffer("table", table, persistent=False)
        self.quantized: Int8Matrix | None = None

    def quantize(self, matrix: QuantizedMatrix) -> None:
        values, scales = torch.from_numpy(matrix.values), torch.from_numpy(matrix.scales)
        self.quantized = Int8Matrix(values, scales)
        self.weight = nn.Parameter(torch.empty(0, self.config.d_model), requires_grad=False)

    def forward(
        self, tokens: Tensor, positions: Tensor, max_position: int, kernels: RowKernels = PLAIN
    ) -> Tensor:
        """Returns the embeddings (B, T, D); no position is larger than `max_position`."""
        if self.quantized is not None or not self.config.has_sinusoids:
            return self.parts(tokens, positions, max_position).embedded
        self.ensure_length(max_position)
        return kernels.embed(tokens, positions, self.weight, self.table, self.scale)

    def parts(self, tokens: Tensor, positions: Tensor, max_position: int) -> TokenParts:
        rows, table = tokens.clamp_min(0), self.quantized
        if table is None:
            vectors = F.embedding(rows, self.weight)
        else:
            vectors = table.rows(rows).float() * table.scales[rows, None]
        vectors = scaled(vectors, tokens, self.scale)
        position = None
        if self.positions is not None:
            places = positions + self.config.position_offset
            # Only padding is beyond the end of the table.
            position = F.embedding(places.clamp_max(len(self.positions) - 1), self.positions)
        elif self.config.has_sinusoids:
            self.ensure_length(max_position)
            position = F.embedding(positions, self.table)
        embedded = vectors if position is None else vectors + position
        return TokenParts(vectors, position, self.norm(embedded))

    def ensure_length(self, position: int) -> None:
        """Extends the position table to include this position.

        The extended table has a new address. A captured CUDA graph goes on reading the old address.
        """
        if position >= self.table.shape[0]:
            start, length = self.config.position_offset, max(128, 2 * position)
            table = sinusoid_table(start + length, self.config.d_model, self.config.sinusoids)
            self.table: Tensor = table[start:].to(self.weight)


def sinusoid_table(length: int, d_model: int, convention: Sinusoids) -> Tensor:
    """Source: Vaswani et al. 2017, section 3.5; marian-dev, src/graph/node_initializers.cpp."""
    n = d_model // 2
    divisor = n - 1 if convention is Sinusoids.MARIAN else n
    frequencies = 10000.0 ** (-torch.arange(n, dtype=torch.float64) / divisor)
    angles = torch.arange(length, dtype=torch.float64)[:, None] * frequencies  # (length, n)
    if convention is Sinusoids.OPENNMT:
        return torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1).float()
    return torch.cat([angles.sin(), angles.cos()], dim=-1).float()


class TextEmbedding(nn.Module):
    """Adds the vectors of the token, its position and token type 0, and applies a norm.

    Some encoders have no vectors of positions or of types, or no norm here.
    """

    def __init__(self, config: TextEncoderConfig) -> None:
        super().__init__()
        width = config.d_model

        def table(rows: int) -> nn.Parameter | None:
            return nn.Parameter(torch.empty(rows, width)) if rows else None

        self.tokens = nn.Parameter(torch.empty(config.vocab_size, width))
        self.positions = table(config.max_positions if config.has_positions else 0)
        self.types = table(config.token_types)
        self.norm: nn.Module = nn.Identity()
        if config.norms_embedding:
            self.norm = new_norm(width, config.blocks[0].norm)
        self.position_offset, self.scale = config.position_offset, config.embedding_scale

    def parts(self, tokens: Tensor, positions: Tensor, max_position: int) -> TokenParts:
        # The vector of a token includes type 0.
        x = F.embedding(tokens, self.tokens)
        if self.scale != 1.0:
            x = x * self.scale
        if self.types is not None:
            x = x + self.types[0]
        if self.positions is None:
            return TokenParts(x, None, self.norm(x))
        position = F.embedding(positions + self.position_offset, self.positions)
        return TokenParts(x, position, self.norm(x + position))
