"""Implements the Transformer encoder of BERT, RoBERTa, XLM-RoBERTa, MPNet and ModernBERT.

Sources: Devlin et al. 2019 (BERT); Liu et al. 2019 (RoBERTa); Song et al. 2020 (MPNet).
`model.architectures.rotary_layer` has the parts of ModernBERT.
"""

import math
from collections.abc import Sequence
from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from model.architectures.encoder import EncoderLayer
from model.architectures.rotary_layer import (
    RotaryLayer,
    TokenEmbedding,
    new_norm,
    window_bias,
)
from model.architectures.token_parts import TokenParts
from model.embedding_config import TextEncoderConfig

MAX_DISTANCE = 128
"""Distance, in tokens, at which the logarithmic scale of MPNet's relative position bias ends.

On each side of the query, all keys at this distance or farther away get the same bias.
"""


class TextEmbedding(nn.Module):
    """Adds the vectors of the token, its position and token type 0, and applies layer norm."""

    def __init__(self, config: TextEncoderConfig) -> None:
        super().__init__()
        self.tokens = nn.Parameter(torch.empty(config.vocab_size, config.d_model))
        self.positions = nn.Parameter(torch.empty(config.max_positions, config.d_model))
        self.types = (
            nn.Parameter(torch.empty(config.token_types, config.d_model))
            if config.token_types
            else None
        )
        self.norm = nn.LayerNorm(config.d_model, eps=config.layer_norm_eps)
        self.position_offset = config.position_offset

    def forward(self, tokens: Tensor, positions: Tensor) -> Tensor:
        """Returns the embeddings (B, S, D) of ids (B, S).

        The positions (B, S) are counted from 0 in each text.
        """
        return self.parts(tokens, positions).embedded

    def parts(self, tokens: Tensor, positions: Tensor) -> TokenParts:
        """Returns the embeddings and their summands; the token's vector includes token type 0."""
        x = F.embedding(tokens, self.tokens)
        if self.types is not None:
            x = x + self.types[0]
        position = F.embedding(positions + self.position_offset, self.positions)
        return TokenParts(x, position, self.norm(x + position))


class RelativeBias(nn.Module):
    """The term that each head adds to an attention score.

    The term depends on the distance from query to key. All layers share the terms. Each distance
    belongs to a bucket, and each bucket has one learned term per head. Half of the buckets are for
    keys after the query, and the other half are for all other keys. In each half, the first buckets
    hold one distance each. The later buckets hold ranges of distances, which are spaced
    logarithmically up to MAX_DISTANCE.

    Source: Raffel et al. 2020 (T5), section 2.1.
    """

    def __init__(self, buckets: int, num_heads: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(buckets, num_heads))

    def forward(self, length: int) -> Tensor:
        """Returns the bias (H, S, S) of a text of S tokens."""
        places = torch.arange(length, device=self.weight.device)
        buckets = self._bucket(places[None, :] - places[:, None])  # (S, S)
        return F.embedding(buckets, self.weight).permute(2, 0, 1).contiguous()

    def of_distances(self, length: int) -> Tensor:
        """Returns the bias (H, 2 * length - 1) of the distances from 1 - length to length - 1."""
        distances = torch.arange(1 - length, length, device=self.weight.device)
        return F.embedding(self._bucket(distances), self.weight).T

    def _bucket(self, offset: Tensor) -> Tensor:
        half = self.weight.shape[0] // 2
        exact = half // 2
        distance = offset.abs()
        ratio = torch.log(distance.clamp_min(1).float() / exact) / math.log(MAX_DISTANCE / exact)
        far = (exact + (ratio * (half - exact)).long()).clamp_max(half - 1)
        return (offset > 0) * half + torch.where(distance < exact, distance, far)


class TextEncoder(nn.Module):
    """The embedding and layers of a text encoder; the modules of `model.backends` run them."""

    def __init__(self, config: TextEncoderConfig) -> None:
        super().__init__()
        self.config = config
        self.embedding: TextEmbedding | TokenEmbedding
        if config.rotary:
            self.embedding = TokenEmbedding(config)
            layers: list[nn.Module] = [RotaryLayer(config, i) for i in range(config.layers)]
            self.norm: nn.Module = new_norm(config)
        else:
            self.embedding = TextEmbedding(config)
            layers = [EncoderLayer(config) for _ in range(config.layers)]
            self.norm = nn.Identity()
        self.layers = nn.ModuleList(layers)
        self.relative_bias = (
            RelativeBias(config.relative_buckets, config.num_heads)
            if config.relative_buckets
            else None
        )

    @property
    def device(self) -> torch.device:
        """Returns the device of the weights."""
        return self.embedding.tokens.device

    @property
    def encoder_layers(self) -> Sequence[EncoderLayer | RotaryLayer]:
        """Returns the layers in order."""
        return cast("list[EncoderLayer | RotaryLayer]", list(self.layers))

    def embed(self, tokens: Tensor, positions: Tensor, max_position: int) -> Tensor:
        """Returns the input (B, S, D) of the first layer; `max_position` has no effect."""
        embedded: Tensor = self.embedding(tokens, positions)
        return embedded

    def parts(self, tokens: Tensor, positions: Tensor, max_position: int) -> TokenParts:
        """Returns the input of the first layer and its summands; see `embed`."""
        return self.embedding.parts(tokens, positions)

    def biases(self, length: int) -> Sequence[Tensor | None]:
        """Returns the bias of each layer for S tokens; None for a layer without a bias.

        The shape of a bias is (1, H, S, S), or (1, 1, S, S) if all heads share it.

        A text of fewer than S tokens uses the first rows and columns of the bias. A bias has four
        dimensions because the fused kernel needs them. With three dimensions, PyTorch would select
        another kernel, whose results differ in the last bits.
        """
        if self.config.rotary:
            dtype = self.embedding.tokens.dtype
            windows = [rotary.window for rotary in self.config.rotary]
            kinds = {each: window_bias(each, length, self.device, dtype) for each in {*windows}}
            return [kinds[window] for window in windows]
        bias = None if self.relative_bias is None else self.relative_bias(length)[None]
        return [bias] * len(self.layers)

    def finish(self, x: Tensor) -> Tensor:
        """Applies the final norm to the output x (B, S, D) of the last layer."""
        y: Tensor = self.norm(x)
        return y
