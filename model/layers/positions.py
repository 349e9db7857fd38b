"""Implements the positions that attention sublayers see: rotations, and biases by distance.

A bias by distance is a table (H, 2 * S - 1) for texts of up to S tokens. Its columns are the
distances from query to key, from 1 - S to S - 1. If all heads share it, it has a single row.
"""

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from model.config import AttentionSpec, Rope

Rotations = tuple[Tensor, Tensor]
"""The cosines and sines (B, 1, S, K) of angles, in float32."""


def rotations(positions: Tensor, head_dim: int, rope: Rope) -> Rotations:
    """Returns the rotations of tokens at positions (B, S).

    Dimensions k and k + K/2 of a head are rotated together, by the angle position * theta^(-2k/K).

    Source: Su et al. 2021, "RoFormer", equation 34.
    """
    exponents = torch.arange(0, head_dim, 2, device=positions.device).float() / head_dim
    frequencies = 1.0 / rope.theta**exponents / rope.divisor
    angles = positions[:, None, :, None].float() * frequencies  # (B, 1, S, K / 2)
    both = torch.cat([angles, angles], dim=-1)
    return both.cos(), both.sin()


def rotate(heads: Tensor, turn: Rotations | None) -> Tensor:
    """Rotates queries or keys (B, H, S, K) in float32; the result keeps the dtype of `heads`."""
    if turn is None:
        return heads
    cosines, sines = turn
    first, second = heads.float().chunk(2, dim=-1)
    turned = torch.cat([-second, first], dim=-1)
    return (heads.float() * cosines + turned * sines).to(heads.dtype)


def distance_bias(spec: AttentionSpec, length: int, device: torch.device) -> Tensor | None:
    """Returns the bias of a mask and of ALiBi, as a float32 table; None for a bias of zeros."""
    if spec.window is None and not (spec.is_causal or spec.has_alibi):
        return None
    distances = torch.arange(1 - length, length, device=device)
    table = torch.zeros(1, len(distances), device=device)
    if spec.has_alibi:
        slopes = torch.tensor(alibi_slopes(spec.heads)).to(device, non_blocking=True)
        table = -slopes[:, None] * distances.abs()
    if spec.window is not None:
        table.masked_fill_(distances.abs() > spec.window, float("-inf"))
    if spec.is_causal:
        table.masked_fill_(distances > 0, float("-inf"))
    return table


def bucket_table(length: int, buckets: int, max_distance: int, device: torch.device) -> Tensor:
    """Returns the bucket (S, S) of each query and key in a text of S tokens, as DeBERTa has it.

    The first half of the buckets is for keys after the query. Distances up to a quarter of the
    number of buckets have one bucket each; larger distances share buckets, spaced logarithmically.

    Source: He et al. 2021, "DeBERTa", section 3.2; transformers, models/deberta_v2,
        make_log_bucket_position.
    """
    places = torch.arange(length, device=device)
    distance = places[:, None] - places  # (S, S), from key to query
    exact = buckets // 4
    ratio = torch.log(distance.abs().clamp_min(exact) / exact)
    ratio = ratio / torch.log(torch.tensor((max_distance - 1) / exact))
    far = torch.ceil(ratio * (exact - 1)) + exact
    near = torch.where(distance.abs() <= exact, distance, (far * distance.sign()).long())
    return (near + buckets // 2).clamp(0, buckets - 1)


def alibi_slopes(heads: int) -> list[float]:
    """Returns the slope of each head: a geometric sequence, if their number is a power of 2.

    Else the sequence is that of the next smaller power of 2. The other heads get every second slope
    of the sequence of twice its length.

    Source: Press et al. 2022, "Train Short, Test Long", section 3.
    """
    power = 1 << heads.bit_length() - 1
    slopes = [2.0 ** (-8.0 * (i + 1) / power) for i in range(power)]
    return slopes + [2.0 ** (-4.0 * (2 * i + 1) / power) for i in range(heads - power)]


def bias_rows(table: Tensor, first: int, end: int, length: int) -> Tensor:
    """Returns the bias (1, H, n, S) of tokens `first` to `end` - 1 in a text of S = `length`.

    A bias has four dimensions because the fused kernel needs them. With three dimensions, PyTorch
    would select another kernel, whose results differ in the last bits.
    """
    longest = (table.shape[1] + 1) // 2
    return table.unfold(1, length, 1)[:, longest - end : longest - first].flip(1)[None]


class RelativeBias(nn.Module):
    """The term that each head adds to an attention score.

    All layers share the terms. Each distance from query to key belongs to a bucket, and each bucket
    has one learned term per head. Half of the buckets are for keys after the query, unless
    attention is causal. In each half, the first buckets hold one distance each. The later buckets
    hold ranges of distances, which are spaced logarithmically up to `max_distance`.

    Source: Raffel et al. 2020 (T5), section 2.1.
    """

    def __init__(self, spec: AttentionSpec) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(spec.buckets, spec.heads))
        self.max_distance, self.is_causal = spec.max_distance, spec.is_causal

    def forward(self, length: int) -> Tensor:
        distances = torch.arange(1 - length, length, device=self.weight.device)
        return F.embedding(self._bucket(distances), self.weight).T.contiguous()

    def _bucket(self, offset: Tensor) -> Tensor:
        buckets = self.weight.shape[0]
        half = buckets if self.is_causal else buckets // 2
        exact = half // 2
        distance = (-offset).clamp_min(0) if self.is_causal else offset.abs()
        span = math.log(self.max_distance / exact)
        ratio = torch.log(distance.clamp_min(1).float() / exact) / span
        far = (exact + (ratio * (half - exact)).long()).clamp_max(half - 1)
        near = torch.where(distance < exact, distance, far)
        return near if self.is_causal else (offset > 0) * half + near
