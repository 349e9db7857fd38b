"""Implements the encoder of a translation model: source ids to memory."""

import torch
from torch import Tensor, nn

from model.architectures.embedding import Embedding
from model.config import LayerConfig, ModelConfig
from model.layers.attention import MultiHeadAttention, mask_bias
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

    def forward(
        self, x: Tensor, bias: Tensor | None, return_weights: bool = False
    ) -> tuple[Tensor, Tensor | None]:
        """Maps (B, S, D) to (B, S, D); also returns the weights (B, H, S, S) or None."""
        inner = self.self_residual.before(x)
        attended = self.self_residual.key_value_input(x, inner)
        key, value = self.self_attention.project_key_value(attended)
        y, weights = self.self_attention(inner, key, value, bias, return_weights)
        x = self.self_residual.after(x, y)
        y = self.feed_forward(self.feed_forward_residual.before(x))
        return self.feed_forward_residual.after(x, y), weights


class Encoder(nn.Module):
    """Maps source ids to memory."""

    def __init__(self, config: ModelConfig, embedding: Embedding) -> None:
        super().__init__()
        self.embedding = embedding
        self.layers = nn.ModuleList(EncoderLayer(config) for _ in range(config.encoder_layers))
        self.norm = final_norm(config)

    def forward(
        self, source: Tensor, mask: Tensor, return_weights: bool = False
    ) -> tuple[Tensor, list[Tensor]]:
        """Encodes source (B, S); mask (B, S) is True on tokens and False on padding.

        Returns:
            The memory (B, S, D); with `return_weights` also each layer's weights (B, H, S, S).
        """
        length = source.shape[1]
        positions = torch.arange(length, device=source.device).expand_as(source)  # (B, S)
        x = self.embedding(source, positions, length - 1)  # (B, S, D)
        bias = mask_bias(mask, x.dtype)[:, None, None, :]  # (B, 1, 1, S)
        all_weights = []
        for layer in self.layers:
            x, weights = layer(x, bias, return_weights)
            all_weights.append(weights)
        return self.norm(x), all_weights if return_weights else []
