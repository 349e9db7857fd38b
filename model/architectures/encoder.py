"""Implements the layers of encoders, of translation models and of text encoders."""

from collections.abc import Sequence
from typing import cast

import torch
from torch import Tensor, nn

from model.architectures.embedding import Embedding, TextEmbedding
from model.config import LayerConfig
from model.layers.attention import Heads, MultiHeadAttention
from model.layers.sublayers import FeedForward, GatedFeedForward, Residual


class FeedForwardEnd(nn.Module):
    """The end of a layer: its feed-forward sublayer."""

    feed_forward: FeedForward | GatedFeedForward
    feed_forward_residual: Residual

    def run_feed_forward(self, x: Tensor) -> Tensor:
        """Returns the output (B, T, D) of the feed-forward sublayer, not yet added to x."""
        y: Tensor = self.feed_forward(self.feed_forward_residual.before(x))
        return y

    def add_feed_forward(self, x: Tensor) -> Tensor:
        """Returns x (B, T, D) after the feed-forward sublayer."""
        return self.feed_forward_residual.after(x, self.run_feed_forward(x))


class EncoderLayer(FeedForwardEnd):
    """An encoder layer, which is computed in three parts, with one method for each part."""

    def __init__(self, config: LayerConfig) -> None:
        super().__init__()
        self.self_attention = MultiHeadAttention(
            config.d_model, config.num_heads, config.has_biases
        )
        self.self_residual = Residual(config)
        self.feed_forward = FeedForward(config)
        self.feed_forward_residual = Residual(config)

    def project(self, x: Tensor, positions: Tensor) -> Heads:
        """Returns queries, keys and values for x (B, S, D) at positions (B, S) in the texts."""
        inner = self.self_residual.before(x)
        return self.self_attention.project(inner, self.self_residual.key_value_input(x, inner))

    def add_attention(self, x: Tensor, heads: Tensor) -> Tensor:
        """Returns x (B, S, D) after self-attention, given weighted values (B, H, S, K)."""
        return self.self_residual.after(x, self.self_attention.merge(heads))


class EncoderStack(nn.Module):
    """An embedding, layers and a final norm. The modules of `model.backends` run them.

    The final norm turns the output of the last layer into the hidden states.
    """

    embedding: Embedding | TextEmbedding
    layers: nn.ModuleList
    norm: nn.Module

    @property
    def device(self) -> torch.device:
        return self.embedding.device

    @property
    def encoder_layers(self) -> list[EncoderLayer]:
        return cast("list[EncoderLayer]", list(self.layers))

    def biases(self, length: int) -> Sequence[Tensor | None]:
        """Returns the bias of each layer for S tokens; None for a layer without a bias.

        The shape of a bias is (1, H, S, S), or (1, 1, S, S) if all heads share it.
        """
        return [None] * len(self.layers)
