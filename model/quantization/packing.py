"""Int8 matrices in the order in which native code reads them where they lie.

A panel is 64 outputs. In it, four inputs of each output lie side by side, as one instruction
multiplies them: (out / 64, in / 4, 64, 4).
"""

import torch
from torch import Tensor, nn

PANEL = 64


def pack(matrix: Tensor) -> Tensor:
    """(out / 64, in / 4, 64, 4) of int8 (out, in); what is packed already comes back as it is."""
    if matrix.dim() == 4:
        return matrix
    out, width = matrix.shape
    fours = matrix.view(torch.int32).view(out // PANEL, PANEL, width // 4)
    packed = fours.transpose(1, 2).clone(memory_format=torch.contiguous_format)
    return packed.view(torch.int8).view(-1, width // 4, PANEL, 4)


def unpack(matrix: Tensor) -> Tensor:
    """(out, in) of a packed matrix; what is not packed comes back as it is."""
    if matrix.dim() == 2:
        return matrix
    fours = matrix.view(torch.int32)[..., 0]  # (out / 64, in / 4, 64)
    return fours.transpose(1, 2).contiguous().flatten(0, 1).view(torch.int8)


def shape_of(packed: Tensor) -> tuple[int, int]:
    """(out, in)."""
    panels, fours, outputs, inputs = packed.shape
    return panels * outputs, fours * inputs


class Int8Matrix(nn.Module):
    """The integers of a product: in order, or once native code serves it packed.

    PyTorch goes on computing attention. A matrix that it multiplies by is then put back in order
    and kept so: doing it each time made a pass over one sentence a third slower.

    Args:
        integers: (out, in).
    """

    def __init__(self, integers: Tensor) -> None:
        super().__init__()
        self.stored: Tensor
        self.register_buffer("stored", integers, persistent=False)
        self.ordered: Tensor | None = None  # of a packed one

    @property
    def integers(self) -> Tensor:
        """(out, in)."""
        if self.stored.dim() == 2:
            return self.stored
        if self.ordered is None:
            self.ordered = unpack(self.stored)
        return self.ordered

    def pack(self) -> Tensor:
        """Keeps them in native code's order from now on; gives them."""
        self.stored = pack(self.stored)
        return self.stored
