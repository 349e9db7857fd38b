"""Int8 products: integer sums, which no order of summing can change.

Weights are the integers of the file. Inputs are scaled row by row, not by the one multiplier a
matrix that Marian's files carry: on the built-in models that costs 0.1 BLEU against float32, and
Marian's 0.1 to 0.4. A row's products do not depend on the rows beside it or on the kernel that a
shape is given.
"""

from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from model.quantization.packing import Int8Matrix

LIMIT = 127
"""Quantised values lie between plus and minus this; -128 is left out, as in Marian."""

MAX_EXACT_TERMS = 2**24 // LIMIT**2
"""Products of int8 values that float32 sums without rounding: 1040."""


@dataclass(frozen=True, slots=True)
class QuantizedMatrix:
    """A weight as the file holds it.

    Attributes:
        values: int8 (out, in), for an embedding (V, D).
        multiplier: A float weight is values / multiplier.
    """

    values: NDArray[np.int8]
    multiplier: float


def quantize_matrix(floats: NDArray[np.float32]) -> QuantizedMatrix:
    """A float matrix in int8, as Marian's own converter makes it: to 127 at its largest value."""
    largest = float(np.abs(floats).max())
    multiplier = LIMIT / largest if largest else 1.0
    values = np.clip(np.rint(floats * multiplier), -LIMIT, LIMIT).astype(np.int8)
    return QuantizedMatrix(values, multiplier)


def has_fast_int8() -> bool:
    """Whether this torch multiplies int8 matrices on the CPU; its operator is a private one."""
    try:
        square = torch.eye(8, dtype=torch.int8)
        return torch.equal(torch._int_mm(square, square), square.int())
    except (AttributeError, RuntimeError):
        return False


HAS_FAST_INT8 = has_fast_int8()


def int8_matmul(x: Tensor, weight: Tensor) -> Tensor:
    """Exact x · weightᵀ, float32 (B, out), for int8 x (B, in) and int8 weight (out, in).

    Without torch's own int8 product, float32 ones are summed in parts small enough to be exact.
    """
    if HAS_FAST_INT8:
        return torch._int_mm(x, weight.t()).float()
    parts = zip(
        torch.split(x.float(), MAX_EXACT_TERMS, dim=-1),
        torch.split(weight.float(), MAX_EXACT_TERMS, dim=-1),
        strict=True,
    )
    products = [F.linear(a, b).to(torch.int32) for a, b in parts]
    return torch.stack(products).sum(dim=0, dtype=torch.int32).float()


class Int8Product(Int8Matrix):
    """x · Wᵀ + b for an int8 W: quantise, multiply exactly, scale back.

    Args:
        weight: From the checkpoint.
        bias: (out) float32, or None.

    Source: Wu et al. 2016, "Google's Neural Machine Translation System", section 6, with a scale
    for each row: x_q = round(x · 127 / max|x|).
    """

    def __init__(self, weight: QuantizedMatrix, bias: Tensor | None) -> None:
        super().__init__(torch.from_numpy(weight.values))
        self.multiplier = weight.multiplier
        self.bias = bias

    @property
    def weight(self) -> Tensor:
        """The integers (out, in)."""
        return self.integers

    @property
    def float_weight(self) -> Tensor:
        """The matrix (out, in) that the integers stand for, float32."""
        return self.weight.float() / self.multiplier

    def forward(self, x: Tensor) -> Tensor:
        """(..., out) for x (..., in)."""
        rows = x.reshape(-1, x.shape[-1])  # (B, in)
        y = self.product(rows, self.weight, self.bias)
        return y.view(*x.shape[:-1], -1)

    def product(self, rows: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        """The same for rows (B, in) and any choice of the weight's rows."""
        largest = rows.abs().amax(dim=-1, keepdim=True).clamp_min_(1e-12)  # (B, 1)
        scale = LIMIT / largest
        quantized = (rows * scale).round_().to(torch.int8)
        y = int8_matmul(quantized, weight).div_(scale * self.multiplier)
        return y if bias is None else y.add_(bias)
