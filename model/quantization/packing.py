"""Packs int8 matrices into the memory layout of the native code.

A packed matrix has the shape (out / 64, in / 4, 64, 4). It consists of panels of 64 outputs. In a
panel, an output's weights for four inputs are adjacent, because one instruction multiplies them.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

PANEL = 64
"""Number of outputs in a panel."""


def pack(matrix: Tensor) -> Tensor:
    """Packs int8 (out, in) into (out / 64, in / 4, 64, 4); returns a packed matrix unchanged.

    If `out` is not a multiple of 64, zeros fill the last panel. `in` must be a multiple of 4.
    """
    if matrix.dim() == 4:
        return matrix
    out, width = matrix.shape
    if out % PANEL:
        matrix = F.pad(matrix, (0, 0, 0, -out % PANEL))
    fours = matrix.view(torch.int32).view(-1, PANEL, width // 4)
    packed = fours.transpose(1, 2).clone(memory_format=torch.contiguous_format)
    return packed.view(torch.int8).view(-1, width // 4, PANEL, 4)


def unpack(matrix: Tensor) -> Tensor:
    """Returns a packed matrix in (out, in) order, with all 64 rows of the last panel.

    Other matrices are returned unchanged.
    """
    if matrix.dim() == 2:
        return matrix
    fours = matrix.view(torch.int32)[..., 0]  # (out / 64, in / 4, 64)
    return fours.transpose(1, 2).contiguous().flatten(0, 1).view(torch.int8)


def shape_of(packed: Tensor) -> tuple[int, int]:
    """Returns (out, in) of a packed matrix; `out` includes the zeros of the last panel."""
    panels, fours, outputs, inputs = packed.shape
    return panels * outputs, fours * inputs


class Int8Matrix(nn.Module):
    """The integers of a linear layer, in (out, in) order or packed for native code.

    PyTorch computes the results of attention queries, even if native code computes translations
    with the model. A packed matrix is therefore unpacked when PyTorch first uses it, and the
    unpacked copy is kept. Unpacking at each use made a pass over one sentence a third slower.

    Args:
        integers: Integers (out, in).
    """

    def __init__(self, integers: Tensor) -> None:
        super().__init__()
        self.stored: Tensor
        self.register_buffer("stored", integers, persistent=False)
        self.ordered: Tensor | None = None  # unpacked copy of a packed matrix
        self.out, self.width = integers.shape

    @property
    def integers(self) -> Tensor:
        """Returns the integers (out, in)."""
        if self.stored.dim() == 2:
            return self.stored
        if self.ordered is None:
            self.ordered = unpack(self.stored)[: self.out]
        return self.ordered

    def rows(self, indices: Tensor) -> Tensor:
        """Returns the integers (..., in) of these rows; a packed matrix stays packed."""
        if self.stored.dim() == 2:
            return F.embedding(indices, self.stored)
        return self.stored[indices // PANEL, :, indices % PANEL].flatten(-2)

    def pack(self) -> Tensor:
        """Packs the integers for native code, and returns the packed matrix."""
        self.stored = pack(self.stored)
        return self.stored
