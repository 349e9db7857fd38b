"""Computes sinusoid position embeddings."""

import torch
from torch import Tensor

from model.config import Sinusoids


def sinusoid_table(length: int, d_model: int, convention: Sinusoids) -> Tensor:
    """Returns position embeddings (length, d_model), float32: sines first, then cosines.

    There are n = d_model / 2 frequencies. Frequency k is 10000^(-k/(n-1)) in Marian, and
    10000^(-k/n) in the Hugging Face port of Marian.

    Source: Vaswani et al. 2017, section 3.5; marian-dev, src/graph/node_initializers.cpp.
    """
    n = d_model // 2
    divisor = n - 1 if convention is Sinusoids.MARIAN else n
    frequencies = 10000.0 ** (-torch.arange(n, dtype=torch.float64) / divisor)
    angles = torch.arange(length, dtype=torch.float64)[:, None] * frequencies  # (length, n)
    return torch.cat([angles.sin(), angles.cos()], dim=-1).float()
