"""Splits the output projection of an attention sublayer into the parts of its heads."""

from typing import cast

from torch import Tensor, nn

from model.layers.attention import MultiHeadAttention
from model.quantization.int8 import Int8Linear


def float_weight(linear: nn.Module) -> Tensor:
    """Returns the matrix (out, in) of a linear layer, as floats even for an int8 layer."""
    weight = linear.float_weight if isinstance(linear, Int8Linear) else linear.weight
    return cast("Tensor", weight)


def head_matrices(module: MultiHeadAttention) -> Tensor:
    """Returns the matrix W_O of the output projection in parts (H, K, D), one for each head."""
    weight = float_weight(module.out)  # (D, H * K)
    return weight.view(len(weight), module.num_heads, -1).permute(1, 2, 0)
