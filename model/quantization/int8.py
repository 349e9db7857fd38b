"""Implements int8 products, whose integer sums do not depend on the other rows of the batch.

There is one scale for the weights of each output, and one for each input row. Marian's files have
one multiplier for all inputs of a matrix, which is not used (docs/decisions.md).
"""

from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn

PANEL = 64
"""Number of outputs in a panel of a packed matrix.

Native code reads packed matrices, of shape (out / 64, in / 4, 64, 4). In a panel, an output's
weights for four inputs are adjacent, because one instruction multiplies them.
"""


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
    """Returns a packed matrix in (out, in) order, with all 64 rows of the last panel."""
    fours = matrix.view(torch.int32)[..., 0]  # (out / 64, in / 4, 64)
    return fours.transpose(1, 2).contiguous().flatten(0, 1).view(torch.int8)


def shape_of(packed: Tensor) -> tuple[int, int]:
    """Returns (out, in) of a packed matrix; `out` includes the zeros of the last panel."""
    panels, fours, outputs, inputs = packed.shape
    return panels * outputs, fours * inputs


class Int8Matrix(nn.Module):
    """The integers of a matrix, in (out, in) order or packed for native code, and their scales.

    PyTorch computes the results of attention queries, even if native code computes translations
    with the model. A packed matrix is therefore unpacked when PyTorch first uses it, and the
    unpacked copy is kept. Unpacking at each use made a pass over one sentence a third slower.
    """

    def __init__(self, integers: Tensor, scales: Tensor) -> None:
        super().__init__()
        self.stored: Tensor
        self.scales: Tensor  # (out): a float weight is an integer * scale
        self.register_buffer("stored", integers, persistent=False)
        self.register_buffer("scales", scales, persistent=False)
        self.ordered: Tensor | None = None  # unpacked copy of a packed matrix
        self.out, self.width = integers.shape

    @property
    def integers(self) -> Tensor:
        if self.stored.dim() == 2:
            return self.stored
        if self.ordered is None:
            self.ordered = unpack(self.stored)[: self.out]
        return self.ordered

    @property
    def weight(self) -> Tensor:
        return self.integers.float() * self.scales[:, None]

    def rows(self, indices: Tensor) -> Tensor:
        """Returns the integers (..., in) of these rows; a packed matrix stays packed."""
        if self.stored.dim() == 2:
            return F.embedding(indices, self.stored)
        return self.stored[indices // PANEL, :, indices % PANEL].flatten(-2)

    def pack(self) -> Tensor:
        self.stored = pack(self.stored)
        return self.stored


LIMIT = 127
"""Largest magnitude of a quantised value; -128 is left out, as in Marian."""


@dataclass(frozen=True, slots=True)
class QuantizedMatrix:
    """Weights values[i] * scales[i]: integers (out, in) or (V, D), and the scale of each row."""

    values: NDArray[np.int8]
    scales: NDArray[np.float32]


def quantize_matrix(floats: NDArray[np.float32]) -> QuantizedMatrix:
    """Quantises a float matrix; the largest magnitude of each row becomes 127.

    Source: Wu et al. 2016, "Google's Neural Machine Translation System", section 6.
    """
    largest = np.abs(floats).max(axis=1, keepdims=True)  # (out, 1)
    steps = np.where(largest > 0, largest, LIMIT).astype(np.float32) / np.float32(LIMIT)
    values = np.clip(np.rint(floats / steps), -LIMIT, LIMIT).astype(np.int8)
    return QuantizedMatrix(values, steps[:, 0])


HAS_FAST_INT8 = hasattr(torch.cpu, "get_capabilities") and bool(
    torch.cpu.get_capabilities().get("avx512_vnni")
)
"""Whether PyTorch multiplies int8 with instructions for it. Its plain loops take 20 times as long
as a product in float32. Older versions of torch do not tell."""

EXACT_TERMS = 2**10
"""Number of int8 products whose sums float32 represents exactly: no sum is above 2**24."""


def int8_matmul(x: Tensor, weight: Tensor) -> Tensor:
    """Returns x · weightᵀ, float32 (B, out), for int8 x (B, in) and weight (out, in).

    The sums of integers are exact. A sum above 2**24 is then rounded once, to float32.
    """
    if HAS_FAST_INT8:
        return torch._int_mm(x, weight.t()).float()
    parts = zip(*(torch.split(m.float(), EXACT_TERMS, dim=1) for m in (x, weight)), strict=True)
    sums = [F.linear(few, weights) for few, weights in parts]
    return sums[0] if len(sums) == 1 else torch.stack(sums).sum(0, dtype=torch.float64).float()


class Int8Linear(Int8Matrix):
    """A linear layer with an int8 weight: quantises x, multiplies exactly, scales the products.

    Source: Wu et al. 2016, "Google's Neural Machine Translation System", section 6, with a scale
    for each row: x_q = round(x · 127 / max|x|).
    """

    def __init__(self, weight: QuantizedMatrix, bias: Tensor | None) -> None:
        super().__init__(torch.from_numpy(weight.values), torch.from_numpy(weight.scales))
        self.bias = bias

    def forward(self, x: Tensor) -> Tensor:
        rows = x.reshape(-1, x.shape[-1])  # (B, in)
        y = self.multiply(rows, self.integers, self.scales, self.bias)
        return y.view(*x.shape[:-1], -1)

    def multiply(self, rows: Tensor, weight: Tensor, scales: Tensor, bias: Tensor | None) -> Tensor:
        """Returns rows · weightᵀ + bias for rows (B, in), and all or some outputs."""
        largest = rows.abs().amax(dim=-1, keepdim=True).clamp_min_(1e-12)  # (B, 1)
        scale = LIMIT / largest
        quantized = (rows * scale).round_().to(torch.int8)
        y = int8_matmul(quantized, weight).mul_(scale.reciprocal() * scales)
        return y if bias is None else y.add_(bias)


FINE = 254
"""Number of fine quantisation steps in one coarse step."""

FINE_NAMES = ("value",)
"""Names of the layers that quantise their input rows to 16 bits: 8 coarse and 8 fine bits.

Most tokens of a text attend to the same few tokens, so errors in the values of these few tokens do
not average out. On all-MiniLM-L6-v2 the layers named here caused 40 % of the whole error with rows
in 8 bits, and 10 % with rows in 16 bits.
"""


class AsymmetricInt8Linear(Int8Matrix):
    """A linear layer for models with float weights, which quantises weight and input rows to int8.

    A row x is rounded to midpoint + step · q for integers q, because most inputs of the layers lie
    to one side of zero. After GELU, for example, no value is below -0.17. The product x · Wᵀ is
    step · (q · Wᵀ), plus the midpoint times the sum of each output's weights. With `is_fine`, the
    rounding error of x is also quantised to int8, and multiplied by the weight.

    Source: Jacob et al. 2018, "Quantization and Training of Neural Networks for Efficient
    Integer-Arithmetic-Only Inference", equation 7, with a range for each row.
    """

    def __init__(self, linear: nn.Linear, is_fine: bool = False) -> None:
        floats = linear.weight.detach()
        # The int8 matrix is allocated before the temporary floats below. If it were allocated after
        # them, holes of free memory would remain between the int8 matrices.
        integers = torch.empty_like(floats, dtype=torch.int8)
        low, high = torch.aminmax(floats, dim=1)
        super().__init__(integers, torch.maximum(-low, high).clamp_min_(1e-12) / LIMIT)
        self.bias: Tensor  # (out)
        self.sums: Tensor  # (out): of the weights of each output
        self.stored.copy_((floats / self.scales[:, None]).round_())
        self.register_buffer("sums", self.stored.sum(dim=1) * self.scales, persistent=False)
        bias = torch.zeros(len(floats)) if linear.bias is None else linear.bias.detach()
        self.register_buffer("bias", bias)
        self.is_fine = is_fine

    def forward(self, x: Tensor) -> Tensor:
        rows = x.reshape(-1, x.shape[-1])  # (B, in)
        low, high = rows.amin(dim=-1, keepdim=True), rows.amax(dim=-1, keepdim=True)
        midpoint = (low + high) / 2  # (B, 1)
        step = ((high - low) / 2).clamp_min_(1e-12) / LIMIT
        scaled = (rows - midpoint) / step
        coarse = scaled.round()
        values = self.integers
        products = int8_matmul(coarse.to(torch.int8), values)
        if self.is_fine:
            rest = ((scaled - coarse) * FINE).round_().to(torch.int8)
            products += int8_matmul(rest, values) / FINE
        y = products * (step * self.scales) + (midpoint * self.sums + self.bias)
        return y.view(*x.shape[:-1], -1)


Replaced = tuple[nn.Module, str, nn.Linear]
"""The owner and the name of a float layer that an int8 layer has replaced, and the layer."""


def quantize(layers: nn.Module) -> list[Replaced]:
    replaced = [
        (owner, name, child)
        for owner in layers.modules()
        for name, child in owner.named_children()
        if isinstance(child, nn.Linear)
    ]
    for owner, name, linear in replaced:
        setattr(owner, name, AsymmetricInt8Linear(linear, name in FINE_NAMES))
    return replaced


def restore(replaced: list[Replaced]) -> None:
    for owner, name, linear in replaced:
        setattr(owner, name, linear)
