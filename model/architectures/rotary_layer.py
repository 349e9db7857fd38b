"""Implements the parts of ModernBERT: rotary positions, local attention, gated feed-forward.

Source: Warner et al. 2024, "Smarter, Better, Faster, Longer", section 2.1; transformers,
models/modernbert/modeling_modernbert.py.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from model.architectures.token_parts import TokenParts
from model.embedding_config import TextEncoderConfig
from model.layers.attention import Heads, MultiHeadAttention
from model.layers.feed_forward import ACTIVATIONS


class TokenEmbedding(nn.Module):
    """Looks up the vector of each token, and then applies layer norm."""

    def __init__(self, config: TextEncoderConfig) -> None:
        super().__init__()
        self.tokens = nn.Parameter(torch.empty(config.vocab_size, config.d_model))
        self.norm = new_norm(config)

    def forward(self, tokens: Tensor, positions: Tensor) -> Tensor:
        """Returns the embeddings (B, S, D) of ids (B, S); only the layers use the positions."""
        return self.parts(tokens, positions).embedded

    def parts(self, tokens: Tensor, positions: Tensor) -> TokenParts:
        """Returns the embeddings before and after the norm; there are no vectors of positions."""
        x = F.embedding(tokens, self.tokens)
        return TokenParts(x, None, self.norm(x))


class GatedFeedForward(nn.Module):
    """The feed-forward sublayer fc2(activation(fc1(x)) * gate(x)).

    Source: Shazeer 2020, "GLU Variants Improve Transformer", equation 6.
    """

    def __init__(self, config: TextEncoderConfig) -> None:
        super().__init__()
        self.fc1 = nn.Linear(config.d_model, config.ffn_dim, bias=False)
        self.gate = nn.Linear(config.d_model, config.ffn_dim, bias=False)
        self.fc2 = nn.Linear(config.ffn_dim, config.d_model, bias=False)
        self.activation = ACTIVATIONS[config.activation]

    def forward(self, x: Tensor) -> Tensor:
        """Maps (B, T, D) to (B, T, D)."""
        y: Tensor = self.fc2(self.activation(self.fc1(x)) * self.gate(x))
        return y


class RotaryLayer(nn.Module):
    """A pre-norm encoder layer without biases, whose queries and keys are rotated.

    Args:
        config: Config of the encoder.
        number: Number of the layer, from 0. The first layer has no norm before attention, because
            the embedding ends with a norm.
    """

    def __init__(self, config: TextEncoderConfig, number: int) -> None:
        super().__init__()
        self.theta = config.rotary[number].theta
        self.self_norm = new_norm(config) if number else nn.Identity()
        self.self_attention = MultiHeadAttention(config.d_model, config.num_heads, has_bias=False)
        self.feed_forward_norm = new_norm(config)
        self.feed_forward = GatedFeedForward(config)

    def project(self, x: Tensor, positions: Tensor) -> Heads:
        """Returns queries, keys and values for x (B, S, D) at positions (B, S)."""
        inner = self.self_norm(x)
        query, key, value = self.self_attention.project(inner, inner)
        cosines, sines = rotations(positions, query.shape[-1], self.theta)
        return rotate(query, cosines, sines), rotate(key, cosines, sines), value

    def add_attention(self, x: Tensor, heads: Tensor) -> Tensor:
        """Returns x (B, S, D) after self-attention, given weighted values (B, H, S, K)."""
        return x + self.self_attention.merge(heads)

    @property
    def attention_norm(self) -> None:
        """Returns None, because a pre-norm layer has no layer norm after attention."""

    def run_feed_forward(self, x: Tensor) -> Tensor:
        """Returns the output (B, S, D) of the feed-forward sublayer, not yet added to x."""
        y: Tensor = self.feed_forward(self.feed_forward_norm(x))
        return y

    def add_feed_forward(self, x: Tensor) -> Tensor:
        """Returns x (B, S, D) after the feed-forward sublayer."""
        return x + self.run_feed_forward(x)


def new_norm(config: TextEncoderConfig) -> nn.LayerNorm:
    """Returns a layer norm without bias."""
    return nn.LayerNorm(config.d_model, eps=config.layer_norm_eps, bias=False)


def rotations(positions: Tensor, head_dim: int, theta: float) -> tuple[Tensor, Tensor]:
    """Returns the cosines and sines (B, 1, S, K) of the angles at positions (B, S), in float32.

    Dimensions k and k + K/2 of a head are rotated together, by the angle position * theta^(-2k/K).

    Source: Su et al. 2021, "RoFormer", equation 34.
    """
    exponents = torch.arange(0, head_dim, 2, device=positions.device).float() / head_dim
    angles = positions[:, None, :, None].float() * (1.0 / theta**exponents)  # (B, 1, S, K / 2)
    both = torch.cat([angles, angles], dim=-1)
    return both.cos(), both.sin()


def rotate(heads: Tensor, cosines: Tensor, sines: Tensor) -> Tensor:
    """Rotates queries or keys (B, H, S, K) in float32; the result keeps the dtype of `heads`.

    Args:
        heads: Queries or keys.
        cosines: Cosines of the angles, from `rotations`.
        sines: Sines of the angles, from `rotations`.
    """
    first, second = heads.float().chunk(2, dim=-1)
    turned = torch.cat([-second, first], dim=-1)
    return (heads.float() * cosines + turned * sines).to(heads.dtype)


def window_bias(
    window: int | None, length: int, device: torch.device, dtype: torch.dtype
) -> Tensor | None:
    """Returns the bias (1, 1, S, S) of a layer: 0 for keys in the query's window, else -inf.

    The window reaches `window` tokens to either side of the query. A layer without a window has no
    bias, so the result is None.
    """
    if window is None:
        return None
    inside = torch.ones(length, length, dtype=torch.bool, device=device)
    inside = inside.tril_(window).triu_(-window)
    bias = torch.zeros(length, length, device=device, dtype=dtype)
    return bias.masked_fill_(~inside, float("-inf"))[None, None]
