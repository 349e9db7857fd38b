"""Int8 matrices in the order in which native code reads them: there is one copy for all uses.

A panel is 64 outputs. In it, four inputs of each output lie side by side, as one instruction
multiplies them: (out / 64, in / 4, 64, 4). PyTorch, which computes attention and what native code
does not serve, puts a matrix back in order when it multiplies by it.
"""

import torch
from torch import Tensor

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
