"""Implements the Transformer encoder of BERT, RoBERTa, XLM-RoBERTa, MPNet and ModernBERT.

Sources: Devlin et al. 2019 (BERT); Liu et al. 2019 (RoBERTa); Song et al. 2020 (MPNet); Warner et
al. 2024, "Smarter, Better, Faster, Longer", section 2.1, and transformers,
models/modernbert/modeling_modernbert.py (ModernBERT).
"""

import math
from collections.abc import Sequence
from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from model.architectures.embedding import TokenParts
from model.architectures.encoder import EncoderLayer
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
        y: Tensor = self.fc2(self.activation(self.fc1(x)) * self.gate(x))
        return y


class RotaryLayer(nn.Module):
    """A layer of ModernBERT: pre-norm, without biases, with rotated queries and keys.

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
        inner = self.self_norm(x)
        query, key, value = self.self_attention.project(inner, inner)
        cosines, sines = rotations(positions, query.shape[-1], self.theta)
        return rotate(query, cosines, sines), rotate(key, cosines, sines), value

    def add_attention(self, x: Tensor, heads: Tensor) -> Tensor:
        return x + self.self_attention.merge(heads)

    @property
    def attention_norm(self) -> None:
        """Returns None, because a pre-norm layer has no layer norm after attention."""

    def run_feed_forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.feed_forward(self.feed_forward_norm(x))
        return y

    def add_feed_forward(self, x: Tensor) -> Tensor:
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
    """Rotates queries or keys (B, H, S, K) in float32; the result keeps the dtype of `heads`."""
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
        return self.embedding.tokens.device

    @property
    def encoder_layers(self) -> Sequence[EncoderLayer | RotaryLayer]:
        return cast("list[EncoderLayer | RotaryLayer]", list(self.layers))

    def embed(self, tokens: Tensor, positions: Tensor, max_position: int) -> Tensor:
        embedded: Tensor = self.embedding(tokens, positions)
        return embedded

    def parts(self, tokens: Tensor, positions: Tensor, max_position: int) -> TokenParts:
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
        y: Tensor = self.norm(x)
        return y
