"""Captures attention maps: weights, weights times value norms, or contributions.

A weight says how much of a value is taken. Contributions also take into account the size of the
value, the residual stream and layer norm, for all heads of a layer together. They say how much each
attended token adds to the vector of an attending token.

Shapes: as in `model.inspection.captures.capture`; R is the number of attending tokens in one call.
"""

from abc import ABC, abstractmethod
from collections.abc import Collection
from dataclasses import dataclass
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from model.inspection.captures.capture import Capture, ProjectedHeads, Slices, head_matrices
from model.inspection.query import (
    AttentionKind,
    AttentionMaps,
    AttentionNorm,
    AttentionQuery,
    Reduction,
)
from model.layers.attention import attention_weights


class MapsCapture(Capture):
    """Captures attention maps in tensors of zeros (layers, heads, T, S).

    The weights are computed in float32, even for a bfloat16 model, so the sum of each row is very
    close to 1. A slice computes `slice_rows` rows of a map. In a map of contributions,
    `Contributions.edges_per_token` and S also count.
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

    def observe(self, projected: ProjectedHeads) -> Slices[None]:
        layers, reduce = self.query.layers[projected.kind], self.query.reduce
        result, is_rollout = self.maps[projected.kind], reduce is Reduction.ROLLOUT
        merged = torch.empty_like(result) if is_rollout else result
        heads, slice_rows = self._select(projected), self.slice_rows
        if isinstance(heads, Contributions):
            slice_rows = max(1, heads.edges_per_token * slice_rows // result.shape[3])
        for first in range(0, result.shape[2], slice_rows):
            if first:
                yield
            rows = slice(first, first + slice_rows)
            values, index = heads.values(rows), layers.index(projected.layer)
            merge(reduce, merged[:, :, rows], values, index, len(layers))
        if is_rollout:
            is_weights = self.query.norm is AttentionNorm.WEIGHTS
            step = rollout_step(merged[0, 0]) if is_weights else merged[0, 0]
            result[0, 0] = step @ result[0, 0]

    def _select(self, projected: ProjectedHeads) -> "ChosenHeads | Contributions":
        if self.query.norm is AttentionNorm.ALTI:
            return Alti(projected)
        if self.query.norm is AttentionNorm.VALUE_ZEROING:
            return ValueZeroing(projected)
        numbers, norms = self.query.heads, None
        query, key = chosen(projected.query, numbers), chosen(projected.key, numbers)
        if self.query.norm is AttentionNorm.VALUE_NORMS:
            matrices = chosen(head_matrices(projected.module), numbers)  # parts of W_O (H, K, D)
            moved = chosen(projected.value, numbers) @ matrices  # (H, S, D)
            norms = torch.linalg.vector_norm(moved, dim=-1)[:, None, :]
        bias = projected.bias
        if bias is not None and bias.dim() == 3:
            bias = chosen(bias, numbers)
        return ChosenHeads(query, key, bias, norms)

    def result(self) -> AttentionMaps:
        return {kind: values.cpu().numpy() for kind, values in self.maps.items()}


@dataclass(frozen=True, slots=True)
class ChosenHeads:
    """The selected heads of one layer, in float32; `norms` are factors of the weights."""

    query: Tensor  # (H, T, K)
    key: Tensor  # (H, S, K)
    bias: Tensor | None  # (T, S) or (H, T, S)
    norms: Tensor | None  # (H, 1, S)

    def values(self, rows: slice) -> Tensor:
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


class Contributions(ABC):
    """The contributions in one attention sublayer of one sentence, for all heads together.

    Computing `edges_per_token` pairs of tokens takes as long as half a layer for one token.
    """

    edges_per_token: ClassVar[int]

    def __init__(self, projected: ProjectedHeads) -> None:
        self.projected = projected
        self.is_self = projected.kind is not AttentionKind.CROSS
        matrices = head_matrices(projected.module)  # (H, K, D)
        self.moved = projected.value.float() @ matrices.float()  # (H, S, D)
        bias = projected.module.out.bias
        self.bias = self.moved.new_zeros(self.moved.shape[-1]) if bias is None else bias.float()

    def values(self, rows: slice) -> Tensor:
        projected = self.projected
        bias = None if projected.bias is None else projected.bias[..., rows, :]
        query, key = projected.query[:, rows].float(), projected.key.float()
        weights = attention_weights(query, key, bias)  # (H, R, S)
        summands = torch.einsum("hrs,hsd->rsd", weights, self.moved)  # (R, S, D)
        return self.share(summands, projected.stream[rows].float(), rows.start)[None]

    @abstractmethod
    def share(self, summands: Tensor, stream: Tensor, first: int) -> Tensor:
        """Returns the contributions (R, S) to some tokens.

        `summands` (R, S, D) are vectors of the attended tokens, which the method may change. Their
        sum, plus the bias of the output projection, is the output of the sublayer. `stream` is the
        residual stream (R, D) before it. `first` is the position of the first attending token.
        """


class Alti(Contributions):
    """Computes contributions from the distance between each summand and the sum (ALTI).

    A summand is the vector that one attended token adds to the residual stream. Its contribution is
    large if the sum would be much shorter without this summand. With self-attention, the residual
    stream counts as a summand of the token itself, and each row sums to 1. With cross-attention,
    the stream also has a share, but the result has no column for it. A row then sums to 1 minus the
    share of the stream. If no summand makes the sum longer, all contributions are 0.

    Sources: Ferrando et al. 2022, "Measuring the Mixing of Contextual Information in the
    Transformer", equations 6 to 9; Ferrando et al. 2022, "Towards Opening the Black Box of Neural
    Machine Translation", section 3.2, for cross-attention.
    """

    edges_per_token = 4

    def share(self, summands: Tensor, stream: Tensor, first: int) -> Tensor:
        residual = self.projected.rest.residual
        whole = summands.sum(dim=1) + self.bias  # (R, D)
        if residual.output_norm is not None:
            summands, whole = linear_norm(residual.output_norm, summands, whole)
        whole = whole + stream
        own = torch.arange(first, first + len(stream), device=stream.device)
        if self.is_self:
            summands[torch.arange(len(own), device=own.device), own] += stream
        else:
            summands = torch.cat([summands, stream[:, None]], dim=1)
        if not residual.is_pre:
            summands, whole = linear_norm(residual.norm, summands, whole)
        lost = (whole[:, None] - summands).abs().sum(dim=-1)  # (R, S)
        kept = (whole.abs().sum(dim=-1, keepdim=True) - lost).clamp_min(0.0)
        shares = normalized(kept)
        return shares if self.is_self else shares[:, :-1]


class ValueZeroing(Contributions):
    """Computes contributions from the change of the layer's output when a value is set to zero.

    The value of one token is set to zero in all heads, and the layer is computed again. The
    contribution is the cosine distance between the two outputs; each row is scaled to sum to 1.

    Source: Mohebbi et al. 2023, "Quantifying Context Mixing in Transformers", section 3.
    """

    edges_per_token = 1

    def share(self, summands: Tensor, stream: Tensor, first: int) -> Tensor:
        output = summands.sum(dim=1) + self.bias  # (R, D)
        without = output[:, None] - summands  # (R, S, D)
        expected = self._finish(stream, output)
        streams = stream[:, None].expand_as(without)
        changed = self._finish(streams.flatten(0, 1), without.flatten(0, 1)).view_as(without)
        distances = 1.0 - F.cosine_similarity(expected[:, None], changed, dim=-1)
        # A token that is not attended contributes exactly 0, in spite of rounding.
        distances = distances.clamp_min(0.0).masked_fill(~summands.any(dim=-1), 0.0)
        return normalized(distances)

    def _finish(self, stream: Tensor, output: Tensor) -> Tensor:
        rest, dtype = self.projected.rest, self.projected.stream.dtype
        return rest.finish(rest.residual.after(stream.to(dtype), output.to(dtype))).float()


def linear_norm(norm: nn.Module, summands: Tensor, whole: Tensor) -> tuple[Tensor, Tensor]:
    """Returns summands (R, S, D) after the linear part of a norm, and the normalised sum.

    `whole` is the sum (R, D) of the summands, biases included.

    Source: Kobayashi et al. 2021, "Incorporating Residual and Normalization Layers into Analysis of
    Masked Language Models", section 2.3.
    """
    assert isinstance(norm, nn.LayerNorm | nn.RMSNorm)
    centred = summands
    if isinstance(norm, nn.LayerNorm):
        centred = summands - summands.mean(dim=-1, keepdim=True)
        whole = whole - whole.mean(dim=-1, keepdim=True)
    assert norm.eps is not None
    spread = (whole.square().mean(dim=-1, keepdim=True) + norm.eps).sqrt()  # (R, 1)
    scale = norm.weight.float() / spread  # (R, D)
    scaled_whole = whole * scale
    if isinstance(norm, nn.LayerNorm) and norm.bias is not None:
        scaled_whole = scaled_whole + norm.bias.float()
    return centred * scale[:, None], scaled_whole


def normalized(values: Tensor) -> Tensor:
    """Scales each row of values (R, S) to sum to 1; a row of zeros stays zero."""
    return values / values.sum(dim=-1, keepdim=True).clamp_min(torch.finfo(values.dtype).tiny)
