"""Implements the Transformer encoder of BERT, RoBERTa, XLM-RoBERTa, MPNet and ModernBERT.

Sources: Devlin et al. 2019 (BERT); Liu et al. 2019 (RoBERTa); Song et al. 2020 (MPNet); Warner et
al. 2024, "Smarter, Better, Faster, Longer", section 2.1, and transformers,
models/modernbert/modeling_modernbert.py (ModernBERT).
"""

import math
from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from model.architectures.embedding import TextEmbedding
from model.architectures.encoder import EncoderLayer, EncoderStack
from model.config import TextEncoderConfig
from model.layers.attention import Heads
from model.layers.sublayers import GatedFeedForward, final_norm


class RotaryLayer(EncoderLayer):
    """A layer of ModernBERT: pre-norm, without biases, with rotated queries and keys.

    The first layer has no norm before attention, because the embedding ends with a norm.
    """

    def __init__(self, config: TextEncoderConfig, number: int) -> None:
        super().__init__(config)
        self.theta = config.rotary[number].theta
        if not number:
            self.self_residual.add_module("norm", nn.Identity())
        self.feed_forward = GatedFeedForward(config)

    def project(self, x: Tensor, positions: Tensor) -> Heads:
        query, key, value = super().project(x, positions)
        cosines, sines = rotations(positions, query.shape[-1], self.theta)
        return rotate(query, cosines, sines), rotate(key, cosines, sines), value


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


class TextEncoder(EncoderStack):
    def __init__(self, config: TextEncoderConfig) -> None:
        super().__init__()
        self.config = config
        self.embedding: TextEmbedding = TextEmbedding(config)
        self.layers = nn.ModuleList(
            RotaryLayer(config, i) if config.rotary else EncoderLayer(config)
            for i in range(config.layers)
        )
        self.norm = final_norm(config)
        self.relative_bias = (
            RelativeBias(config.relative_buckets, config.num_heads)
            if config.relative_buckets
            else None
        )

    def biases(self, length: int) -> Sequence[Tensor | None]:
        """Returns the biases as `EncoderStack` describes them.

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
