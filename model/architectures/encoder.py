"""Implements the encoder of a translation model.

The encoder maps source ids to the memory, which the cross-attention of the decoder reads.
"""

from typing import cast

import torch
from torch import Tensor, nn

from model.architectures.embedding import Embedding, TokenParts
from model.config import ModelConfig
from model.embedding_config import LayerConfig
from model.layers.attention import Heads, MultiHeadAttention
from model.layers.feed_forward import FeedForward
from model.layers.residual import Residual, final_norm


class EncoderLayer(nn.Module):
    """An encoder layer: self-attention, then feed-forward."""

    def __init__(self, config: LayerConfig) -> None:
        super().__init__()
        self.self_attention = MultiHeadAttention(config.d_model, config.num_heads)
        self.self_residual = Residual(config)
        self.feed_forward = FeedForward(config)
        self.feed_forward_residual = Residual(config)

    def project(self, x: Tensor, positions: Tensor | None = None) -> Heads:
        inner = self.self_residual.before(x)
        return self.self_attention.project(inner, self.self_residual.key_value_input(x, inner))

    def add_attention(self, x: Tensor, heads: Tensor) -> Tensor:
        return self.self_residual.after(x, self.self_attention.merge(heads))

    @property
    def attention_norm(self) -> nn.Module | None:
        return self.self_residual.norm_after

    def run_feed_forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.feed_forward(self.feed_forward_residual.before(x))
        return y

    def add_feed_forward(self, x: Tensor) -> Tensor:
        return self.feed_forward_residual.after(x, self.run_feed_forward(x))


class Encoder(nn.Module):
    """Maps source ids to memory."""

    def __init__(self, config: ModelConfig, embedding: Embedding) -> None:
        super().__init__()
        self.embedding = embedding
        self.layers = nn.ModuleList(EncoderLayer(config) for _ in range(config.encoder_layers))
        self.norm = final_norm(config)

    @property
    def device(self) -> torch.device:
        return self.embedding.weight.device

    @property
    def encoder_layers(self) -> list[EncoderLayer]:
        return cast("list[EncoderLayer]", list(self.layers))

    def embed(self, tokens: Tensor, positions: Tensor, max_position: int) -> Tensor:
        embedded: Tensor = self.embedding(tokens, positions, max_position)
        return embedded

    def parts(self, tokens: Tensor, positions: Tensor, max_position: int) -> TokenParts:
        return self.embedding.parts(tokens, positions, max_position)

    def biases(self, length: int) -> list[None]:
        return [None] * len(self.layers)

    def finish(self, x: Tensor) -> Tensor:
        memory: Tensor = self.norm(x)
        return memory
