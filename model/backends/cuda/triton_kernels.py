"""Implements the kernels of decode steps by programs in Triton's language.

The attention reads the keys and values of one head of one row in blocks. After each block, it keeps
the largest score, the sum of the exponentials and the sum of the weighted values. The order of
summation depends only on the number of keys of the row. A row therefore has the same bits in every
batch. All programs compute in float32.

Source: Milakov and Gimelshein 2018, "Online normalizer calculation for softmax".
"""

from itertools import chain
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor, nn

from model.layers.attention import Heads, KeyValue, RowKernels

BLOCK = 32  # keys that a program reads at once

ATTENTION_WARPS = 1
"""An H200 needs 4.3 µs with one warp, 6.0 µs with two, and 9.9 µs with four. This was measured for
256 rows with 30 keys, and 8 heads of 64 numbers."""

MAX_WIDE_BYTES = 128
"""Largest size of a head for which a program attends 64 tokens at once, and not 32. Larger blocks
of wide heads would not fit into the shared memory of some GPUs."""

TEXT_WARPS = 4  # of the programs that attend packed texts

ROW_WARPS = 4  # the time of these programs hardly depends on this number

PART, PART_WARPS = 16384, 4  # number of logits that a program reads


class TritonKernels(RowKernels):
    """Each kernel computes one row; `attend_kernel` computes one head of a row.

    In the tensors of `attend`, the K elements of a head must be adjacent in memory. Keys and values
    must have equal strides, and so must the new ones.
    """

    def embed(
        self, tokens: Tensor, positions: Tensor, weight: Tensor, table: Tensor, scale: float
    ) -> Tensor:
        rows, width = len(tokens), weight.shape[1]
        assert tokens.shape[1] == 1
        out = weight.new_empty(rows, 1, width)
        strides = tokens.stride(0), positions.stride(0)
        vectors = tokens, positions, weight, table, out
        launch_rows(embed_kernel, rows, width, *vectors, *strides, scale)
        return out

    def attend(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        lengths: Tensor,
        new: KeyValue | None = None,
        rows: Tensor | None = None,
    ) -> Tensor:
        count, heads, _, head_dim = query.shape
        out = query.new_empty(count, 1, heads, head_dim)
        new_key, new_value = (query, query) if new is None else new
        assert key.stride() == value.stride()
        assert new_key.stride() == new_value.stride()
        # Triton launches on PyTorch's current device, so this must be the device of the tensors.
        with torch.cuda.device_of(query):  # type: ignore[no-untyped-call]
            attend_kernel[(count, heads)](
                *(query, key, value, lengths, lengths if rows is None else rows),
                *(new_key, new_value, out),
                *query.stride()[:2],
                *key.stride()[:3],
                *new_key.stride()[:2],
                head_dim**-0.5,
                heads=heads,
                head_dim=head_dim,
                padded_dim=triton.next_power_of_2(head_dim),
                block=BLOCK,
                has_new=new is not None,
                has_rows=rows is not None,
                num_warps=ATTENTION_WARPS,
            )
        return out.transpose(1, 2)

    def attend_texts(
        self, heads: Heads, texts: Tensor, longest: int, bias: Tensor | None
    ) -> Tensor:
        query, _, _ = heads
        _, num_heads, tokens, head_dim = query.shape
        out = query.new_empty(1, tokens, num_heads, head_dim)
        # `tl.dot` needs at least 16 numbers in each dimension.
        padded_dim = max(16, triton.next_power_of_2(head_dim))
        # A GPU has room for few large blocks in its shared memory.
        block = 64 if padded_dim * query.element_size() <= MAX_WIDE_BYTES else 32
        strides = chain.from_iterable(each.stride()[1:3] for each in heads)
        bias_head = 0 if bias is None or len(bias) == 1 else bias.stride(0)
        with torch.cuda.device_of(query):  # type: ignore[no-untyped-call]
            attend_texts_kernel[(texts.shape[1], num_heads, triton.cdiv(longest, block))](
                *(*heads, texts, query if bias is None else bias, out),
                *(*strides, bias_head, longest - 1),
                head_dim=head_dim,
                padded_dim=padded_dim,
                block=block,
                has_bias=bias is not None,
                num_warps=TEXT_WARPS,
                num_stages=2,
            )
        return out.transpose(1, 2)

    def add_norm(self, x: Tensor, y: Tensor, norm: nn.Module) -> tuple[Tensor, Tensor]:
        width = x.shape[-1]
        if not isinstance(norm, nn.LayerNorm) or norm.bias is None:
            return super().add_norm(x, y, norm)
        assert x.is_contiguous()
        assert y.is_contiguous()
        total, normed = torch.empty_like(y), torch.empty_like(y)
        arguments = x, y, norm.weight, norm.bias, total, normed, norm.eps
        launch_rows(add_norm_kernel, x.numel() // width, width, *arguments)
        return total, normed

    def recur(self, forget: Tensor, update: Tensor, cell: Tensor) -> Tensor:
        assert all(each.is_contiguous() for each in (forget, update, cell))
        out = torch.empty_like(forget)
        launch_rows(recur_kernel, *cell.shape, forget, update, cell, out)
        return out

    def choose(self, logits: Tensor, chosen: Tensor, tokens: Tensor) -> None:
        rows, columns = logits.shape
        parts = triton.cdiv(columns, PART)
        assert chosen.is_contiguous()
        assert tokens.is_contiguous()
        largest = torch.empty(rows, parts, device=logits.device)
        ids = torch.empty(rows, parts, dtype=torch.int32, device=logits.device)
        found = logits, largest, ids, columns, parts, logits.stride(0)
        padded_parts = triton.next_power_of_2(parts)
        with torch.cuda.device_of(logits):  # type: ignore[no-untyped-call]
            part_maximum_kernel[(rows, parts)](*found, part=PART, num_warps=PART_WARPS)
            choice_kernel[(rows,)](
                largest, ids, chosen, tokens, parts, padded_parts=padded_parts, num_warps=1
            )


def launch_rows(kernel: Any, rows: int, width: int, x: Tensor, *others: Any) -> None:
    """Launches a kernel that computes vectors of `width` numbers, one program for each row."""
    padded_width = triton.next_power_of_2(width)
    with torch.cuda.device_of(x):  # type: ignore[no-untyped-call]
        kernel[(rows,)](x, *others, width=width, padded_width=padded_width, num_warps=ROW_WARPS)


@triton.jit
def read(places, mask):
    return tl.load(places, mask=mask, other=0.0).to(tl.float32)


@triton.jit
def attend_kernel(
    query,
    key,
    value,
    lengths,
    rows,
    new_key,
    new_value,
    out,
    query_row,
    query_head,
    key_row,
    key_head,
    key_position,
    new_row,
    new_head,
    scale,
    heads: tl.constexpr,
    head_dim: tl.constexpr,
    padded_dim: tl.constexpr,
    block: tl.constexpr,
    has_new: tl.constexpr,
    has_rows: tl.constexpr,
):
    """Computes the attention (B, 1, H, K) of one head of one row, into the contiguous `out`.

    With `has_new`, the last key and value of each row are in `new_key` and `new_value`, and are
    written to `key` and `value`. `lengths` includes them. The arguments from `query_row` on are
    distances in memory, in elements: between rows, heads, or keys of one head. `padded_dim` is a
    power of two that is at least K. `block` keys are read at once. With `has_rows`, `rows` has the
    row of `key` and `value`.
    """
    row = tl.program_id(0).to(tl.int64)
    head = tl.program_id(1).to(tl.int64)
    length = tl.load(lengths + row)
    dims = tl.arange(0, padded_dim)
    has_dim = dims < head_dim
    scaled_query = read(query + row * query_row + head * query_head + dims, has_dim) * scale
    cached_row = row
    if has_rows:
        cached_row = tl.load(rows + row)
    keys = key + cached_row * key_row + head * key_head
    values = value + cached_row * key_row + head * key_head
    largest = float("-inf")
    total = 0.0
    weighted_sum = tl.zeros([padded_dim], tl.float32)
    if has_new:
        length = length - 1
        place = row * new_row + head * new_head + dims
        last_key, weighted_sum = read(new_key + place, has_dim), read(new_value + place, has_dim)
        place = length * key_position + dims
        tl.store(keys + place, last_key.to(key.dtype.element_ty), mask=has_dim)
        tl.store(values + place, weighted_sum.to(value.dtype.element_ty), mask=has_dim)
        largest = tl.sum(last_key * scaled_query, axis=0)
        total = 1.0
    for first in range(0, length, block):
        positions = first + tl.arange(0, block)
        is_key = positions < length
        mask = is_key[:, None] & has_dim[None, :]
        places = positions[:, None] * key_position + dims[None, :]
        part_of_keys, part_of_values = read(keys + places, mask), read(values + places, mask)
        scores = tl.sum(part_of_keys * scaled_query[None, :], axis=1)
        scores = tl.where(is_key, scores, float("-inf"))
        larger = tl.maximum(largest, tl.max(scores, axis=0))
        factor = tl.exp(largest - larger)
        weights = tl.exp(scores - larger)
        weighted_sum = weighted_sum * factor + tl.sum(part_of_values * weights[:, None], axis=0)
        total = total * factor + tl.sum(weights, axis=0)
        largest = larger
    weighted_sum = weighted_sum / tl.maximum(total, 1e-30)  # 0 for a row without keys
    target = out + (row * heads + head) * head_dim + dims
    tl.store(target, weighted_sum.to(out.dtype.element_ty), mask=has_dim)


@triton.jit
def attend_texts_kernel(
    query,
    key,
    value,
    texts,
    bias,
    out,
    query_head,
    query_token,
    key_head,
    key_token,
    value_head,
    value_token,
    bias_head,
    zero_column,
    head_dim: tl.constexpr,
    padded_dim: tl.constexpr,
    block: tl.constexpr,
    has_bias: tl.constexpr,
):
    """Computes the attention (1, N, H, K) of `block` tokens of one text in one head, into `out`.

    The arguments from `query_head` to `bias_head` are distances in memory, in elements: between
    heads, or tokens of one head. `texts` is (3, B), as in `RowKernels.attend_texts`.
    `zero_column` is the column of `bias` for the distance 0.
    """
    text = tl.program_id(0)
    head = tl.program_id(1).to(tl.int64)
    start = tl.load(texts + text)
    length = tl.load(texts + tl.num_programs(0) + text)
    num_keys = tl.load(texts + 2 * tl.num_programs(0) + text)
    places = tl.arange(0, block)
    dims = tl.arange(0, padded_dim)
    rows = tl.program_id(2) * block + places
    if tl.program_id(2) * block >= length:
        return
    is_row = rows < length
    mask = is_row[:, None] & (dims < head_dim)[None, :]
    tokens = (start + rows)[:, None]
    queries = tl.load(
        query + head * query_head + tokens * query_token + dims[None, :], mask=mask, other=0.0
    )
    largest = tl.full([block], float("-inf"), tl.float32)
    total = tl.zeros([block], tl.float32)
    weighted_sum = tl.zeros([block, padded_dim], tl.float32)
    for first in range(0, num_keys, block):
        columns = first + places
        is_key = columns < num_keys
        has_key = is_key[:, None] & (dims < head_dim)[None, :]
        others = (start + columns)[:, None]
        keys = tl.load(
            key + head * key_head + others * key_token + dims[None, :], mask=has_key, other=0.0
        )
        values = tl.load(
            value + head * value_head + others * value_token + dims[None, :],
            mask=has_key,
            other=0.0,
        )
        scores = tl.dot(queries, tl.trans(keys), input_precision="ieee") * head_dim**-0.5
        if has_bias:
            distances = columns[None, :] - rows[:, None]
            scores += read(
                bias + head * bias_head + zero_column + distances, is_row[:, None] & is_key[None, :]
            )
        scores = tl.where(is_key[None, :], scores, float("-inf"))
        larger = tl.maximum(largest, tl.max(scores, axis=1))
        # A mask may exclude all keys of a block. The difference of two infinities would be NaN.
        finite = tl.where(larger == float("-inf"), 0.0, larger)
        factor = tl.exp(largest - finite)
        weights = tl.exp(scores - finite[:, None])
        part = tl.dot(weights.to(values.dtype), values, input_precision="ieee")
        weighted_sum = weighted_sum * factor[:, None] + part
        total = total * factor + tl.sum(weights, axis=1)
        largest = larger
    weighted_sum = weighted_sum / tl.maximum(total, 1e-30)[:, None]
    out += (tokens * tl.num_programs(1) + head) * head_dim + dims[None, :]
    tl.store(out, weighted_sum.to(out.dtype.element_ty), mask=mask)


@triton.jit
def embed_kernel(
    tokens,
    positions,
    weight,
    table,
    out,
    token_row,
    position_row,
    scale,
    width: tl.constexpr,
    padded_width: tl.constexpr,
):
    row = tl.program_id(0).to(tl.int64)
    dims = tl.arange(0, padded_width)
    has_dim = dims < width
    token = tl.load(tokens + row * token_row)
    position = tl.load(positions + row * position_row)
    has_token = has_dim & (token >= 0)
    vector = read(weight + token * width + dims, has_token)
    summed = vector * scale + read(table + position * width + dims, has_dim)
    tl.store(out + row * width + dims, summed.to(out.dtype.element_ty), mask=has_dim)


@triton.jit
def add_norm_kernel(
    x, y, weight, bias, total, normed, epsilon, width: tl.constexpr, padded_width: tl.constexpr
):
    row = tl.program_id(0).to(tl.int64)
    dims = tl.arange(0, padded_width)
    has_dim = dims < width
    places = row * width + dims
    rounded = (read(x + places, has_dim) + read(y + places, has_dim)).to(total.dtype.element_ty)
    tl.store(total + places, rounded, mask=has_dim)
    summed = rounded.to(tl.float32)
    mean = tl.sum(summed, axis=0) / width
    centred = tl.where(has_dim, summed - mean, 0.0)
    variance = tl.sum(centred * centred, axis=0) / width
    scaled = centred / tl.sqrt(variance + epsilon)
    scaled = scaled * read(weight + dims, has_dim) + read(bias + dims, has_dim)
    tl.store(normed + places, scaled.to(normed.dtype.element_ty), mask=has_dim)


@triton.jit
def recur_kernel(forget, update, cell, out, width: tl.constexpr, padded_width: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    dims = tl.arange(0, padded_width)
    has_dim = dims < width
    places = row * width + dims
    gate = 1.0 / (1.0 + tl.exp(-read(forget + places, has_dim)))
    new, old = read(update + places, has_dim), read(cell + places, has_dim)
    new = (gate * old + (1.0 - gate) * new).to(cell.dtype.element_ty)
    tl.store(cell + places, new, mask=has_dim)
    positive = tl.maximum(new.to(tl.float32), 0.0)
    tl.store(out + places, positive.to(out.dtype.element_ty), mask=has_dim)


@triton.jit
def part_maximum_kernel(logits, largest, ids, columns, parts, logits_row, part: tl.constexpr):
    """Finds the largest of up to `part` logits of one row (B, V), and its id.

    `largest` and `ids` are (B, P) for P `parts` of a row of V `columns`. `logits_row` is the
    distance in memory between two rows.
    """
    row = tl.program_id(0).to(tl.int64)
    number = tl.program_id(1)
    columns_read = number * part + tl.arange(0, part)
    values = tl.load(
        logits + row * logits_row + columns_read, mask=columns_read < columns, other=float("-inf")
    ).to(tl.float32)
    values = tl.where(values == values, values, float("-inf"))  # NaN would win or lose by chance
    value, index = tl.max(values, axis=0, return_indices=True)
    tl.store(largest + row * parts + number, value)
    tl.store(ids + row * parts + number, number * part + index)


@triton.jit
def choice_kernel(largest, ids, chosen, tokens, parts, padded_parts: tl.constexpr):
    """Writes the id of the largest logit of one row to `chosen` and to `tokens`."""
    row = tl.program_id(0).to(tl.int64)
    numbers = tl.arange(0, padded_parts)
    is_part = numbers < parts
    values = tl.load(largest + row * parts + numbers, mask=is_part, other=float("-inf"))
    part_ids = tl.load(ids + row * parts + numbers, mask=is_part, other=0)
    best = tl.argmax(values, axis=0)
    token = tl.sum(tl.where(numbers == best, part_ids, 0), axis=0).to(tl.int64)
    tl.store(chosen + row, token)
    tl.store(tokens + row, token)
