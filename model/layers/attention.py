"""Implements scaled dot-product and multi-head attention (Vaswani et al. 2017, section 3.2).

Shapes: B is the number of rows, T the number of attending tokens, and S the number of attended
tokens. H is the number of heads, K the size of a head, and D the width of the model.
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from model.layers.row_kernels import KeyValue, RowKernels

Heads = tuple[Tensor, Tensor, Tensor]
"""Queries (B, H, T, K), and keys and values, each (B, H, S, K)."""


@dataclass(frozen=True, slots=True)
class RowLengths:
    """Replaces a bias if each row has a single query, which attends to the first keys of the row.

    Attributes:
        lengths: Number of keys of each row (B,).
        kernels: Kernels that compute the attention.
        new: Last key and value of each row, which the kernels append to the keys and values.
    """

    lengths: Tensor
    kernels: RowKernels
    new: KeyValue | None = None


Bias = Tensor | RowLengths
"""Selects the keys: a term added to the scores, or the number of keys of each row."""


def mask_bias(mask: Tensor, dtype: torch.dtype) -> Tensor:
    """Returns the additive form of a mask: 0 where the mask is True (attend), else -inf."""
    return torch.zeros(mask.shape, dtype=dtype, device=mask.device).masked_fill_(
        ~mask, float("-inf")
    )


def attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    bias: Bias | None = None,
    scale: float | None = None,
    return_weights: bool = False,
) -> tuple[Tensor, Tensor | None]:
    """Returns softmax(query · keyᵀ · scale + bias) · value.

    PyTorch's fused kernel does not return the weights. If they are requested, the explicit form
    computes attention in separate steps. On a CPU, this form also computes a single query (T = 1).
    For 64 rows of 8 heads and 32 keys, the explicit form takes 235 µs, and the fused kernel takes
    322 µs. Also, padding of the keys does not change the bits of the explicit form's result.

    On a GPU, the fused kernel computes single queries too, unless the bias is a RowLengths. The
    fused kernel needs one launch, reads keys and values once, and keeps the scores on the chip. The
    explicit form needs five small launches.

    Args:
        query: (..., T, K). Keys and values are (..., S, K).
        bias: Term added to the scores, broadcast to (..., T, S); -inf excludes a key. With
            RowLengths, each row must have one query, `scale` must be None, and `return_weights`
            must be False. If the RowLengths has `new`, the new keys and values are written to
            `key` and `value`.
        scale: Factor of the scores; None means 1 / sqrt(K).
        return_weights: Whether to return the attention weights.

    Returns:
        The weighted values (..., T, K), and the weights (..., T, S) or None.

    Source: Vaswani et al. 2017, equation 1.
    """
    if isinstance(bias, RowLengths):
        assert scale is None
        assert not return_weights
        return bias.kernels.attend(query, key, value, bias.lengths, bias.new), None
    is_single_query = query.shape[-2] == 1 and query.device.type == "cpu"
    if not (return_weights or is_single_query):
        fused = F.scaled_dot_product_attention(query, key, value, attn_mask=bias, scale=scale)
        return fused, None
    weights = attention_weights(query, key, bias, scale)
    return weights @ value, weights if return_weights else None


def attention_weights(
    query: Tensor, key: Tensor, bias: Tensor | None = None, scale: float | None = None
) -> Tensor:
    """Returns the weights softmax(query · keyᵀ · scale + bias), (..., T, S); see `attention`."""
    factor = query.shape[-1] ** -0.5 if scale is None else scale
    scores = (query * factor) @ key.transpose(-2, -1)  # (..., T, S)
    if bias is not None:
        scores = scores + bias
    return torch.softmax(scores, dim=-1)


class MultiHeadAttention(nn.Module):
    """Multi-head attention; each of the H heads uses a contiguous slice of the D dimensions.

    Keys and values are projected by a separate method, because a decoder projects the encoder
    output of a sentence only once. The decoder then caches the keys and values.
    """

    def __init__(self, d_model: int, num_heads: int, has_bias: bool = True) -> None:
        super().__init__()
        self.num_heads = num_heads
        self.query = nn.Linear(d_model, d_model, bias=has_bias)
        self.key = nn.Linear(d_model, d_model, bias=has_bias)
        self.value = nn.Linear(d_model, d_model, bias=has_bias)
        self.out = nn.Linear(d_model, d_model, bias=has_bias)
        self.fused: tuple[Tensor, Tensor | None] | None = None

    def fuse(self) -> None:
        """Joins three projections, so that one product computes queries, keys and values.

        In cross-attention, one product computes keys and values. The three weights become views of
        one tensor. Call this method when the weights are on their device and in their precision.
        """
        if self.fused is not None:
            return
        linears = [self.query, self.key, self.value]
        weight = torch.cat([linear.weight.detach() for linear in linears])
        for linear, part in zip(linears, weight.chunk(3), strict=True):
            linear.weight.data = part
        biases = [linear.bias.detach() for linear in linears if linear.bias is not None]
        self.fused = weight, torch.cat(biases) if biases else None

    def project(self, x: Tensor, memory: Tensor) -> Heads:
        """Returns the queries for x (B, T, D), and keys and values for `memory` (B, S, D)."""
        if self.fused is None or memory is not x:
            return (self.project_query(x), *self.project_key_value(memory))
        query, key, value = F.linear(x, *self.fused).chunk(3, dim=-1)
        return self._split(query), self._split(key), self._split(value)

    def project_query(self, x: Tensor) -> Tensor:
        """Returns queries (B, H, T, K) for the attending vectors x (B, T, D)."""
        return self._split(self.query(x))

    def project_key_value(self, memory: Tensor) -> tuple[Tensor, Tensor]:
        """Returns keys and values, each (B, H, S, K), for the attended memory (B, S, D)."""
        if self.fused is None:
            return self._split(self.key(memory)), self._split(self.value(memory))
        weight, bias = self.fused
        width = weight.shape[1]
        parts = F.linear(memory, weight[width:], None if bias is None else bias[width:])
        key, value = parts.chunk(2, dim=-1)
        return self._split(key), self._split(value)

    def forward(
        self,
        x: Tensor,
        key: Tensor,
        value: Tensor,
        bias: Bias | None,
        return_weights: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        """Attends from x (B, T, D) to key and value (B, H, S, K).

        Returns:
            The output (B, T, D), and the weights (B, H, T, S) or None.
        """
        return self.attend((self.project_query(x), key, value), bias, return_weights)

    def attend(
        self, heads: Heads, bias: Bias | None, return_weights: bool = False
    ) -> tuple[Tensor, Tensor | None]:
        """Returns the output (B, T, D) for queries, keys and values.

        The other arguments and results are those of `forward`.
        """
        weighted, weights = attention(*heads, bias, return_weights=return_weights)
        return self.merge(weighted), weights

    def merge(self, heads: Tensor) -> Tensor:
        """Returns the output projection (B, T, D) of weighted values (B, H, T, K)."""
        y: Tensor = self.out(heads.transpose(1, 2).flatten(2))
        return y

    def _split(self, x: Tensor) -> Tensor:
        return x.view(*x.shape[:-1], self.num_heads, -1).transpose(1, 2)  # (B, H, T, K)


def fuse_projections(model: nn.Module) -> None:
    """Fuses the projections of all attention layers, because a GPU then computes them faster.

    A small product takes a GPU about as long as one that is three times as wide.
    """
    for module in model.modules():
        if isinstance(module, MultiHeadAttention):
            module.fuse()
