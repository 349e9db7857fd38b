"""Implements the kernels of decode steps with one token per row, in PyTorch.

On a GPU, each of the small operations of a decode step takes longer to launch than to compute. A
kernel joins several of them. L is the number of positions in a table of positions.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

KeyValue = tuple[Tensor, Tensor]
"""The key and the value of the present token of each row, (B, H, 1, K) each."""


class RowKernels:
    """Computes parts of decode steps. The result for a row does not depend on other rows.

    Attention also reads the keys of padding. `model.backends.cuda.triton_kernels` has kernels that
    do not.
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
    ) -> Tensor:
        """Computes the attention (B, H, 1, K) of the single query of each row to its first keys.

        Keys and values are (B, H, S, K). `lengths` is the number of keys of each row (B,). The
        result for a row without keys is finite. `new` is the last key and value of each row, which
        are also written to position `lengths` - 1. Without it, the tensors already contain them.
        """
        if new is not None:
            rows = torch.arange(len(key), device=key.device)
            for values, added in zip((key, value), new, strict=True):
                values[rows, :, lengths - 1] = added[:, :, 0]
        positions = torch.arange(key.shape[2], device=key.device)
        mask = positions < lengths.clamp_min(1)[:, None]  # (B, S)
        return F.scaled_dot_product_attention(query, key, value, attn_mask=mask[:, None, None, :])

    def add_norm(self, x: Tensor, y: Tensor, norm: nn.Module) -> tuple[Tensor, Tensor]:
        """Returns the sum of x and y (B, T, D), and its norm."""
        total = x + y
        return total, norm(total)

    def recur(self, forget: Tensor, update: Tensor, cell: Tensor) -> Tensor:
        """Returns the output (B, 1, D) of an SSRU for one token; updates the cells (B, D) in place.

        `forget` holds the gates before the sigmoid, and `update` holds W x (B, 1, D).
        """
        gate = torch.sigmoid(forget[:, 0])
        return next_output(gate, (1 - gate) * update[:, 0], cell)[:, None]

    def choose(self, logits: Tensor, chosen: Tensor, tokens: Tensor) -> None:
        """Writes the id of the largest logit of each row to `chosen` and to `tokens`, (B,) each.

        If several ids have the largest logit (B, V), the smallest of these ids is written.
        """
        ids = logits.max(dim=-1).indices  # takes less time than `argmax` on a GPU
        chosen.copy_(ids)
        tokens.copy_(ids)


def next_output(forget: Tensor, update: Tensor, cell: Tensor) -> Tensor:
    """Returns the output (B, D) of an SSRU for one token; updates the cell (B, D) in place.

    `forget` holds the forget gates f (B, D), and `update` holds (1 - f) * W x (B, D).
    """
    return cell.mul_(forget).add_(update).relu()


def scaled(vectors: Tensor, tokens: Tensor, scale: float) -> Tensor:
    """Returns token vectors (B, T, D) times `scale`; zeros for a negative id in `tokens` (B, T)."""
    return (vectors * scale).masked_fill((tokens < 0).unsqueeze(-1), 0.0)


PLAIN = RowKernels()
