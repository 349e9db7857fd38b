"""Captures attention maps: weights, weights times value norms, or contributions.

Shapes: as in `model.inspection.captures.capture`.
"""

from collections.abc import Collection
from dataclasses import dataclass

import torch
from torch import Tensor

from model.inspection.captures.capture import (
    AttentionSite,
    Capture,
    ProjectedHeads,
    Slices,
    head_matrices,
)
from model.inspection.captures.contributions import Alti, Contributions, ValueZeroing
from model.inspection.query import (
    AttentionKind,
    AttentionMaps,
    AttentionNorm,
    AttentionQuery,
    Reduction,
)
from model.layers.attention import attention_weights


class MapsCapture(Capture):
    """Captures attention maps.

    The weights are computed from queries and keys in float32, even for a bfloat16 model. The sum of
    each row is therefore very close to 1.

    Args:
        query: The query.
        maps: Tensors of the result (layers, heads, T, S), filled with zeros.
        slice_rows: Number of rows of a map (attending tokens) that a slice computes. In a map of
            contributions, the number also depends on `Contributions.edges_per_token` and S.
    """

    def __init__(
        self, query: AttentionQuery, maps: dict[AttentionKind, Tensor], slice_rows: int
    ) -> None:
        self.query = query
        self.maps = maps
        self.slice_rows = slice_rows
        if query.reduce is Reduction.ROLLOUT:
            for result in maps.values():
                result[0, 0].fill_diagonal_(1.0)  # a rollout starts with the identity

    def layers(self, kind: AttentionKind) -> Collection[int]:
        return self.query.layers.get(kind, ())

    def observe(self, site: AttentionSite, projected: ProjectedHeads) -> Slices[None]:
        """Merges one layer into the result, slice by slice."""
        layers, is_rollout = self.query.layers[site.kind], self.query.reduce is Reduction.ROLLOUT
        result, reduce = self.maps[site.kind], self.query.reduce
        merged = torch.empty_like(result) if is_rollout else result
        heads, slice_rows = self._select(site, projected), self.slice_rows
        if isinstance(heads, Contributions):
            slice_rows = max(1, heads.edges_per_token * slice_rows // result.shape[3])
        for first in range(0, result.shape[2], slice_rows):
            if first:
                yield
            rows = slice(first, first + slice_rows)
            values, index = heads.values(rows), layers.index(site.layer)
            merge(reduce, merged[:, :, rows], values, index, len(layers))
        if is_rollout:
            is_weights = self.query.norm is AttentionNorm.WEIGHTS
            step = rollout_step(merged[0, 0]) if is_weights else merged[0, 0]
            result[0, 0] = step @ result[0, 0]

    def _select(
        self, site: AttentionSite, projected: ProjectedHeads
    ) -> "ChosenHeads | Contributions":
        if self.query.norm is AttentionNorm.ALTI:
            return Alti(site, projected)
        if self.query.norm is AttentionNorm.VALUE_ZEROING:
            return ValueZeroing(site, projected)
        numbers, norms = self.query.heads, None
        query, key = chosen(projected.query, numbers), chosen(projected.key, numbers)
        if self.query.norm is AttentionNorm.VALUE_NORMS:
            matrices = chosen(head_matrices(projected.module), numbers)
            norms = value_norms(chosen(projected.value, numbers), matrices)[:, None, :]
        bias = projected.bias
        if bias is not None and bias.dim() == 3:
            bias = chosen(bias, numbers)
        return ChosenHeads(query, key, bias, norms)

    def result(self) -> AttentionMaps:
        return {kind: values.cpu().numpy() for kind, values in self.maps.items()}


@dataclass(frozen=True, slots=True)
class ChosenHeads:
    """The selected heads of one layer, in float32.

    Attributes:
        query: Queries (H, T, K).
        key: Keys (H, S, K).
        bias: Term added to the scores, (T, S) or (H, T, S), or None.
        norms: Factors of the weights (H, 1, S), or None.
    """

    query: Tensor
    key: Tensor
    bias: Tensor | None
    norms: Tensor | None

    def values(self, rows: slice) -> Tensor:
        """Returns the weights of some rows (H, rows, S), times the norms if there are any."""
        bias = None if self.bias is None else self.bias[..., rows, :]
        weights = attention_weights(self.query[:, rows], self.key, bias)
        return weights if self.norms is None else weights.mul_(self.norms)


def chosen(heads: Tensor, numbers: tuple[int, ...]) -> Tensor:
    """Returns some of the heads (H, ...) in float32, without copying indices to the device."""
    if numbers == tuple(range(len(heads))):
        return heads.float()
    return torch.stack([heads[number] for number in numbers]).float()


def merge(reduce: Reduction, result: Tensor, heads: Tensor, index: int, count: int) -> None:
    """Merges the heads (H, T, S) of one of `count` layers into a result (layers, heads, T, S)."""
    if reduce is Reduction.NONE:
        result[index] = heads
    elif reduce is Reduction.MAX_HEADS:
        result[index, 0] = heads.amax(dim=0)
    elif reduce is Reduction.MEAN_LAYERS_HEADS:
        result[0, 0].add_(heads.mean(dim=0), alpha=1.0 / count)
    else:  # one rollout step is computed from the mean of a layer, which the next layer replaces
        result[0 if reduce is Reduction.ROLLOUT else index, 0] = heads.mean(dim=0)


def rollout_step(weights: Tensor) -> Tensor:
    """Returns a layer's factor of a rollout (T, T): half its weights, half the identity.

    Rollout is the product of these factors, with the first layer on the right.

    Source: Abnar and Zuidema 2020, "Quantifying Attention Flow in Transformers", section 3:
    A = 0.5 W + 0.5 I, with rows that sum to 1.
    """
    mixed = 0.5 * (weights + torch.eye(len(weights), device=weights.device))
    return mixed / mixed.sum(dim=-1, keepdim=True)


def value_norms(value: Tensor, matrices: Tensor) -> Tensor:
    """Returns the norms (H, S) of values (H, S, K) times their parts (H, K, D) of W_O.

    Source: Kobayashi et al. 2020, section 3, without the factor of the attention weight.
    """
    norms: Tensor = torch.linalg.vector_norm(value @ matrices, dim=-1)
    return norms
