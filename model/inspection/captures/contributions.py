"""Computes contributions: how much each attended token adds to the vector of an attending token.

A weight says how much of a value is taken. Contributions also take into account the size of the
value, the residual stream and layer norm, for all heads of a layer together.

Shapes: as in `model.inspection.captures.capture`; R is the number of attending tokens in one call.
"""

from abc import ABC, abstractmethod
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from model.inspection.captures.capture import AttentionSite, ProjectedHeads, head_matrices
from model.inspection.query import AttentionKind
from model.layers.attention import attention_weights

PART_NUMBERS = 1 << 22
"""Largest number of floats in the summands (R, S, D) that are in memory at a time."""


class Contributions(ABC):
    """The contributions in one attention sublayer of one sentence, for all heads together.

    Computing `edges_per_token` pairs of tokens takes as long as half a layer for one token.
    """

    edges_per_token: ClassVar[int]

    def __init__(self, site: AttentionSite, projected: ProjectedHeads) -> None:
        self.projected = projected
        self.is_self = site.kind is not AttentionKind.CROSS
        matrices = head_matrices(projected.module)  # (H, K, D)
        self.moved = projected.value.float() @ matrices.float()  # (H, S, D)
        bias = projected.module.out.bias
        self.bias = self.moved.new_zeros(self.moved.shape[-1]) if bias is None else bias.float()
        self.rows_per_part = max(1, PART_NUMBERS // self.moved[0].numel())

    def values(self, rows: slice) -> Tensor:
        """Returns the contributions (1, R, S) to some tokens."""
        first, end, _ = rows.indices(self.projected.query.shape[1])
        parts = [
            self._part(start, min(start + self.rows_per_part, end))
            for start in range(first, end, self.rows_per_part)
        ]
        return torch.cat(parts)[None]

    def _part(self, first: int, end: int) -> Tensor:
        projected = self.projected
        bias = None if projected.bias is None else projected.bias[..., first:end, :]
        weights = attention_weights(
            projected.query[:, first:end].float(), projected.key.float(), bias
        )  # (H, R, S)
        summands = torch.einsum("hrs,hsd->rsd", weights, self.moved)  # (R, S, D)
        return self.share(summands, projected.stream[first:end].float(), first)

    @abstractmethod
    def share(self, summands: Tensor, stream: Tensor, first: int) -> Tensor:
        """Returns the contributions (R, S) to some tokens.

        Args:
            summands: Vectors (R, S, D) of the attended tokens, which the method may change. Their
                sum, plus the bias of the output projection, is the output of the sublayer.
            stream: Residual stream (R, D) before the sublayer.
            first: Position of the first of the R attending tokens in the sentence.
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
        whole = summands.sum(dim=1) + stream + self.bias  # (R, D)
        norm = self.projected.rest.norm
        own = torch.arange(first, first + len(stream), device=stream.device)
        if self.is_self:
            summands[torch.arange(len(own), device=own.device), own] += stream
        else:
            summands = torch.cat([summands, stream[:, None]], dim=1)
        if norm is not None:
            summands, whole = linear_norm(norm, summands, whole)
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
        return rest.finish(rest.add(stream.to(dtype), output.to(dtype))).float()


def linear_norm(norm: nn.Module, summands: Tensor, whole: Tensor) -> tuple[Tensor, Tensor]:
    """Returns summands (R, S, D) after the linear part of layer norm, and the normalised sum.

    `whole` is the sum (R, D) of the summands, biases included.

    Source: Kobayashi et al. 2021, "Incorporating Residual and Normalization Layers into Analysis of
    Masked Language Models", section 2.3.
    """
    assert isinstance(norm, nn.LayerNorm)
    spread = (whole.var(dim=-1, unbiased=False) + norm.eps).sqrt()  # (R)
    scale = norm.weight.float() / spread[:, None]  # (R, D)
    centred = summands - summands.mean(dim=-1, keepdim=True)
    scaled_whole = (whole - whole.mean(dim=-1, keepdim=True)) * scale
    if norm.bias is not None:
        scaled_whole = scaled_whole + norm.bias.float()
    return centred * scale[:, None], scaled_whole


def normalized(values: Tensor) -> Tensor:
    """Scales each row of values (R, S) to sum to 1; a row of zeros stays zero."""
    return values / values.sum(dim=-1, keepdim=True).clamp_min(torch.finfo(values.dtype).tiny)
