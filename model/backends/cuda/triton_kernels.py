"""Implements the kernels of decode steps by programs in Triton's language."""

from typing import Any

import torch
import triton
from torch import Tensor, nn

from model.backends.cuda.triton_programs import (
    add_norm_kernel,
    attend_kernel,
    choice_kernel,
    embed_kernel,
    part_maximum_kernel,
    recur_kernel,
)
from model.layers.row_kernels import KeyValue, RowKernels

BLOCK = 32
"""Number of keys that a program reads at once."""

ATTENTION_WARPS = 1
"""An H200 needs 4.3 µs with one warp, 6.0 µs with two, and 9.9 µs with four. This was measured for
256 rows with 30 keys, and 8 heads of 64 numbers."""

ROW_WARPS = 4  # the time of these programs hardly depends on this number

PART, PART_WARPS = 16384, 4
"""An H200 chooses the tokens of 1,024 rows of 32,000 ids in 23 µs; PyTorch needs 39 µs."""


class TritonKernels(RowKernels):
    """Implements the kernels by Triton's programs.

    In the tensors of `attend`, the K elements of a head must be adjacent in memory.
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
    ) -> Tensor:
        rows, heads, _, head_dim = query.shape
        out = query.new_empty(rows, 1, heads, head_dim)
        new_key, new_value = (query, query) if new is None else new
        # Triton launches on PyTorch's current device, so this must be the device of the tensors.
        with torch.cuda.device_of(query):  # type: ignore[no-untyped-call]
            attend_kernel[(rows, heads)](
                *(query, key, value, lengths, new_key, new_value, out),
                *query.stride()[:2],
                *key.stride()[:3],
                *value.stride()[:3],
                *new_key.stride()[:2],
                *new_value.stride()[:2],
                head_dim**-0.5,
                heads=heads,
                head_dim=head_dim,
                padded_dim=triton.next_power_of_2(head_dim),
                block=BLOCK,
                has_new=new is not None,
                num_warps=ATTENTION_WARPS,
            )
        return out.transpose(1, 2)

    def add_norm(self, x: Tensor, y: Tensor, norm: nn.Module) -> tuple[Tensor, Tensor]:
        width = x.shape[-1]
        assert isinstance(norm, nn.LayerNorm)
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
