"""A Triton kernel for decode steps: the query of each row attends to the keys of that row.

A row has room for more keys than it uses; `lengths` has the number of keys that it uses.

One program computes one head of one row. It reads the keys and values in blocks. After each
block, it keeps the largest score, the sum of the exponentials and the sum of the weighted values.
The order of summation depends only on the number of keys of the row. A row therefore has the same
bits in every batch.

Source: Milakov and Gimelshein 2018, "Online normalizer calculation for softmax".
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

BLOCK = 32
"""Number of keys that a program reads at once."""


@triton.jit
def attend_kernel(
    query,
    key,
    value,
    lengths,
    out,
    query_row,
    query_head,
    key_row,
    key_head,
    key_position,
    value_row,
    value_head,
    value_position,
    scale,
    heads: tl.constexpr,
    head_dim: tl.constexpr,
    padded_dim: tl.constexpr,
    block: tl.constexpr,
):
    """Computes one head of one row.

    Args:
        query: Queries (B, H, 1, K).
        key: Keys (B, H, S, K).
        value: Values (B, H, S, K).
        lengths: Number of keys of each row (B,).
        out: Receives the attention (B, H, 1, K); a contiguous tensor.
        query_row: Distance in memory between two rows of the queries, in elements.
        query_head: Distance in memory between two heads of the queries, in elements.
        key_row: Distance in memory between two rows of the keys, in elements.
        key_head: Distance in memory between two heads of the keys, in elements.
        key_position: Distance in memory between two keys of a head, in elements.
        value_row: Distance in memory between two rows of the values, in elements.
        value_head: Distance in memory between two heads of the values, in elements.
        value_position: Distance in memory between two values of a head, in elements.
        scale: Factor of the scores.
        heads: Number of heads (H).
        head_dim: Size of a head (K).
        padded_dim: The power of two that is at least K.
        block: Number of keys that are read at once.
    """
    row = tl.program_id(0).to(tl.int64)
    head = tl.program_id(1).to(tl.int64)
    length = tl.load(lengths + row)
    dims = tl.arange(0, padded_dim)
    has_dim = dims < head_dim
    scaled_query = tl.load(
        query + row * query_row + head * query_head + dims, mask=has_dim, other=0.0
    )
    scaled_query = scaled_query.to(tl.float32) * scale
    keys = key + row * key_row + head * key_head
    values = value + row * value_row + head * value_head
    largest = float("-inf")
    total = 0.0
    weighted_sum = tl.zeros([padded_dim], tl.float32)
    for first in range(0, length, block):
        positions = first + tl.arange(0, block)
        is_key = positions < length
        mask = is_key[:, None] & has_dim[None, :]
        part = tl.load(
            keys + positions[:, None] * key_position + dims[None, :], mask=mask, other=0.0
        )
        scores = tl.sum(part.to(tl.float32) * scaled_query[None, :], axis=1)
        scores = tl.where(is_key, scores, float("-inf"))
        larger = tl.maximum(largest, tl.max(scores, axis=0))
        factor = tl.exp(largest - larger)
        weights = tl.exp(scores - larger)
        part = tl.load(
            values + positions[:, None] * value_position + dims[None, :], mask=mask, other=0.0
        )
        weighted_sum = weighted_sum * factor + tl.sum(
            part.to(tl.float32) * weights[:, None], axis=0
        )
        total = total * factor + tl.sum(weights, axis=0)
        largest = larger
    weighted_sum = weighted_sum / tl.maximum(total, 1e-30)  # 0 for a row without keys
    target = out + (row * heads + head) * head_dim + dims
    tl.store(target, weighted_sum.to(out.dtype.element_ty), mask=has_dim)


def attend_rows(query: Tensor, key: Tensor, value: Tensor, lengths: Tensor) -> Tensor:
    """Returns the attention (B, H, 1, K); zeros for a row without keys.

    Args:
        query: (B, H, 1, K). In query, key and value, the K elements of a head are adjacent in
            memory.
        key: (B, H, S, K).
        value: (B, H, S, K).
        lengths: Number of keys of each row (B,).
    """
    rows, heads, _, head_dim = query.shape
    out = torch.empty(query.shape, dtype=query.dtype, device=query.device)
    # Triton launches kernels on the current device.
    with torch.cuda.device_of(query):  # type: ignore[no-untyped-call]
        attend_kernel[(rows, heads)](
            query,
            key,
            value,
            lengths,
            out,
            *query.stride()[:2],
            *key.stride()[:3],
            *value.stride()[:3],
            head_dim**-0.5,
            heads=heads,
            head_dim=head_dim,
            padded_dim=triton.next_power_of_2(head_dim),
            block=BLOCK,
            num_warps=2,
        )
    return out
