"""Computes sinusoid position embeddings."""

import torch
from torch import Tensor

from model.config import Sinusoids


def sinusoid_table(length: int, d_model: int, convention: Sinusoids) -> Tensor:
    """Returns position embeddings (length, D), float32: sines first, then cosines.

    Source: Vaswani et al. 2017, section 3.5; Marian's frequencies are 10000^(-k/(n-1)) for
    n = D / 2 (marian-dev, src/graph/node_initializers.cpp), Hugging Face's 10000^(-k/n).
    """
    n = d_model // 2
    divisor = n - 1 if convention is Sinusoids.MARIAN else n
    frequencies = 10000.0 ** (-torch.arange(n, dtype=torch.float64) / divisor)
    angles = torch.arange(length, dtype=torch.float64)[:, None] * frequencies  # (length, n)
    return torch.cat([angles.sin(), angles.cos()], dim=-1).float()
