"""Implements attention (Vaswani et al. 2017, section 3.2), and the kernels of decode steps.

T is the number of attending tokens, and S the number of attended tokens. On a GPU, each of the
small operations of a decode step takes longer to launch than to compute. A kernel joins several of
them.
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from model.config import AttentionSpec, NormSpec
from model.layers.positions import Rotations, bucket_table, rotate, rotations

Heads = tuple[Tensor, Tensor, Tensor]
"""Queries (B, H, T, K), and keys and values, each (B, H, S, K)."""


KeyValue = tuple[Tensor, Tensor]
"""The key and the value of the present token of each row, (B, H, 1, K) each."""


class RowKernels:
    """Computes parts of decode steps, and of layers over packed texts.

    The result for a row or a text does not depend on others. Attention also reads the keys of
    padding. `model.backends.cuda.triton_kernels` has kernels that do not.
    """

    def embed(
        self, tokens: Tensor, positions: Tensor, weight: Tensor, table: Tensor, scale: float
    ) -> Tensor:
        """Returns (B, T, D): the tokens' vectors times `scale`, plus the positions' vectors.

        The vector of a negative id is zero. `weight` is (V, D), and `table` (L, D). T is 1 in a
        decode step.
        """
        vectors = F.embedding(tokens.clamp_min(0), weight)
        return scaled(vectors, tokens, scale) + F.embedding(positions, table)

    def attend(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        lengths: Tensor,
        new: KeyValue | None = None,
        rows: Tensor | None = None,
    ) -> Tensor:
        """Computes the attention (B, H, 1, K) of the single query of each row to its first keys.

        Keys and values are (B, H, S, K). `lengths` is the number of keys of each row (B,). The
        result for a row without keys is finite. `new` is the last key and value of each row, which
        are also written to position `lengths` - 1. Without it, the tensors already contain them.
        `rows` (B) has the index of each query's keys and values, if they are not in this order.
        """
        if new is not None:
            index = torch.arange(len(query), device=key.device) if rows is None else rows
            for values, added in zip((key, value), new, strict=True):
                values[index, :, lengths - 1] = added[:, :, 0]
        if rows is not None:
            key, value = key[rows], value[rows]
        positions = torch.arange(key.shape[2], device=key.device)
        mask = positions < lengths.clamp_min(1)[:, None]  # (B, S)
        return F.scaled_dot_product_attention(query, key, value, attn_mask=mask[:, None, None, :])

    def attend_texts(
        self, heads: Heads, texts: Tensor, longest: int, bias: Tensor | None
    ) -> Tensor | None:
        """Computes the attention (1, H, N, K) of packed texts; None if there is no kernel for it.

        Heads are (1, H, N, K). `texts` (3, B) has the first token of each text, its number of
        tokens, and the number of its first tokens that are keys. A bias is a table by distance
        (`model.layers.positions`) for texts of up to `longest` tokens, as these texts are.
        """
        return None

    def add_norm(self, x: Tensor, y: Tensor, norm: nn.Module) -> tuple[Tensor, Tensor]:
        """Returns the sum of x and y (B, T, D), and its norm."""
        total = x + y
        return total, norm(total)

    def recur(self, forget: Tensor, update: Tensor, cell: Tensor) -> Tensor:
        """Returns the output (B, 1, D) of an SSRU for one token; updates the cells (B, D) in place.

        `forget` holds the gates before the sigmoid, and `update` holds W x (B, 1, D).
        """
        gate = torch.sigmoid(forget[:, 0])
        return cell.mul_(gate).add_((1 - gate) * update[:, 0]).relu()[:, None]

    def choose(self, logits: Tensor, chosen: Tensor, tokens: Tensor) -> None:
        """Writes the id of the largest logit of each row to `chosen` and to `tokens`, (B,) each.

        If several ids have the largest logit (B, V), the smallest of these ids is written.
        """
        ids = logits.max(dim=-1).indices  # takes less time than `argmax` on a GPU
        chosen.copy_(ids)
        tokens.copy_(ids)


def scaled(vectors: Tensor, tokens: Tensor, scale: float) -> Tensor:
    """Returns token vectors (B, T, D) times `scale`; zeros for a negative id in `tokens` (B, T)."""
    return (vectors * scale).masked_fill((tokens < 0).unsqueeze(-1), 0.0)


PLAIN = RowKernels()


def mask_bias(mask: Tensor, dtype: torch.dtype) -> Tensor:
    """Returns 0 where the mask is True (attend), else -inf."""
    return torch.zeros(mask.shape, dtype=dtype, device=mask.device).masked_fill_(
        ~mask, float("-inf")
    )


def attention(query: Tensor, key: Tensor, value: Tensor, bias: Tensor | None = None) -> Tensor:
    """Returns softmax(query · keyᵀ / sqrt(K) + bias) · value, of shape (..., T, K).

    A bias (..., T, S) of -inf excludes a key. On a CPU, the explicit form computes a single query.
    For 64 rows of 8 heads and 32 keys, it takes 235 µs, and PyTorch's fused kernel takes 322 µs.
    Also, padding of the keys does not change the bits of its result. On a GPU, it would need five
    launches, and the fused kernel one.

    Source: Vaswani et al. 2017, equation 1.
    """
    if query.shape[-2] == 1 and query.device.type == "cpu":
        return attention_weights(query, key, bias) @ value
    return F.scaled_dot_product_attention(query, key, value, attn_mask=bias)


def attention_weights(query: Tensor, key: Tensor, bias: Tensor | None = None) -> Tensor:
    """Returns the weights (..., T, S) of `attention`."""
    scores = (query * query.shape[-1] ** -0.5) @ key.transpose(-2, -1)  # (..., T, S)
    if bias is not None:
        scores = scores + bias
    return torch.softmax(scores, dim=-1)


@dataclass(frozen=True, slots=True)
class Recording:
    """Where a decode step writes cross-attention: the mean over some heads of one layer."""

    layer: int
    heads: slice
    weights: Tensor  # (B, S), float32

    def write(self, query: Tensor, key: Tensor, bias: Tensor) -> None:
        query, key = query[:, self.heads].float(), key[:, self.heads].float()
        found = attention_weights(query, key, bias)  # (B, H, 1, S)
        self.weights.copy_(found.mean(dim=1)[:, 0])


class MultiHeadAttention(nn.Module):
    """Multi-head attention; each of the H heads has a contiguous slice of K dimensions.

    If several heads share keys and values, these are repeated, so that all tensors have H heads.
    """

    def __init__(self, d_model: int, spec: AttentionSpec) -> None:
        super().__init__()
        self.num_heads, self.rope = spec.heads, spec.rope
        self.repeats = spec.heads // spec.kv_heads
        width, kv_width = spec.heads * spec.head_dim, spec.kv_heads * spec.head_dim
        self.head_dim, self.widths = spec.head_dim, [width, kv_width, kv_width]
        # `attention` divides scores by sqrt(K). Another scale is a factor of the queries.
        self.factor = 1.0 if spec.scale is None else spec.scale * spec.head_dim**0.5
        self.query = nn.Linear(d_model, width, bias=spec.has_bias)
        self.key = nn.Linear(d_model, kv_width, bias=spec.has_bias)
        self.value = nn.Linear(d_model, kv_width, bias=spec.has_bias)
        self.out = nn.Linear(width, d_model, bias=spec.has_bias)
        self.query_norm = None if spec.qk_norm is None else new_norm(spec.head_dim, spec.qk_norm)
        self.key_norm = None if spec.qk_norm is None else new_norm(spec.head_dim, spec.qk_norm)
        self.fused: tuple[Tensor, Tensor | None] | None = None
        self.rounds_to_half = False

    def fuse(self) -> None:
        """Joins the projections, so that one product computes queries, keys and values.

        The three weights, already on their device and in their precision, become views of a tensor.
        """
        if self.fused is not None:
            return
        linears = [self.query, self.key, self.value]
        weight = torch.cat([linear.weight.detach() for linear in linears])
        for linear, part in zip(linears, torch.split(weight, self.widths), strict=True):
            linear.weight.data = part
        biases = [linear.bias.detach() for linear in linears if linear.bias is not None]
        self.fused = weight, torch.cat(biases) if biases else None

    def project(self, x: Tensor, memory: Tensor, positions: Tensor | None = None) -> Heads:
        """Returns the queries for x (B, T, D), and keys and values for `memory` (B, S, D).

        With rotary positions, x and memory are the same tokens, at `positions` (B, T).
        """
        turn = None
        if self.rope is not None and positions is not None:
            turn = rotations(positions, self.head_dim, self.rope)
        if self.fused is None or memory is not x:
            return (self.project_query(x, turn), *self.project_key_value(memory, turn))
        query, key, value = torch.split(F.linear(x, *self.fused), self.widths, dim=-1)
        return (self._queries(query, turn), *self._keys_and_values(key, value, turn))

    def project_query(self, x: Tensor, turn: Rotations | None = None) -> Tensor:
        return self._queries(self.query(x), turn)

    def project_key_value(
        self, memory: Tensor, turn: Rotations | None = None
    ) -> tuple[Tensor, Tensor]:
        if self.fused is None:
            return self._keys_and_values(self.key(memory), self.value(memory), turn)
        weight, bias = self.fused
        width = self.widths[0]
        parts = F.linear(memory, weight[width:], None if bias is None else bias[width:])
        key, value = parts.chunk(2, dim=-1)
        return self._keys_and_values(key, value, turn)

    def _queries(self, projected: Tensor, turn: Rotations | None) -> Tensor:
        query = self._split(projected)
        if self.query_norm is not None:
            query = self.query_norm(query)
        query = rotate(query, turn)
        return query if self.factor == 1.0 else query * self.factor

    def _keys_and_values(
        self, key: Tensor, value: Tensor, turn: Rotations | None
    ) -> tuple[Tensor, Tensor]:
        key, value = self._split(key), self._split(value)
        if self.key_norm is not None:
            key = self.key_norm(key)
        key = rotate(key, turn)
        if self.repeats > 1:
            key, value = (each.repeat_interleave(self.repeats, dim=1) for each in (key, value))
        # The decoder of an int8 model rounds to half precision, as native code stores it so.
        if self.rounds_to_half:
            key, value = round_to_half(key), round_to_half(value)
        return key, value

    def merge(self, heads: Tensor) -> Tensor:
        """Returns the output projection (B, T, D) of weighted values (B, H, T, K)."""
        y: Tensor = self.out(heads.transpose(1, 2).flatten(2))
        return y

    def _split(self, x: Tensor) -> Tensor:
        return x.view(*x.shape[:-1], -1, self.head_dim).transpose(1, 2)  # (B, H, T, K)


class RelativeVectors(nn.Module):
    """The vectors of buckets of distances, which all layers share.

    A layer makes queries and keys of them by its own projections. Each query is compared with the
    key of its distance to a key of the text, and each key with the query of this distance.

    Source: He et al. 2021, "DeBERTa", equation 4.
    """

    def __init__(self, d_model: int, spec: AttentionSpec, norm: NormSpec) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(spec.buckets, d_model))
        self.norm = new_norm(d_model, norm)
        self.max_distance = spec.max_distance

    def project(self, layer: MultiHeadAttention) -> Heads:
        """Returns queries, keys and values (1, H, R, K) of the R buckets in a layer."""
        vectors = self.norm(self.weight)[None]
        return layer.project(vectors, vectors)

    def bias(self, heads: Heads, query: Tensor, key: Tensor) -> Tensor:
        """Returns the bias (B, H, S, S) of texts, given their heads and those of the buckets."""
        size = *key.shape[:3], key.shape[2]
        buckets, max_distance = heads[0].shape[2], self.max_distance
        table = bucket_table(key.shape[2], buckets, max_distance, key.device)
        of_queries = (query @ heads[1].mT).gather(-1, table.expand(size))
        of_keys = (key @ heads[0].mT).gather(-1, table.T.expand(size)).mT
        scores: Tensor = (of_queries + of_keys) * query.shape[-1] ** -0.5
        return scores


def new_norm(width: int, spec: NormSpec) -> nn.LayerNorm | nn.RMSNorm:
    if spec.is_rms:
        return nn.RMSNorm(width, eps=spec.eps)
    return nn.LayerNorm(width, eps=spec.eps, bias=spec.has_bias)


def round_to_half(x: Tensor) -> Tensor:
    limit = torch.finfo(torch.float16).max
    return x.clamp(-limit, limit).half().to(x.dtype)


def fuse_projections(model: nn.Module) -> None:
    """Fuses all projections: a GPU computes a product and one three times as wide in equal time."""
    for module in model.modules():
        if isinstance(module, MultiHeadAttention):
            module.fuse()
