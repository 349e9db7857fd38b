"""Attention of one query per row to the row's own keys, whose number is on the device.

A CUDA graph has fixed shapes, but the rows of a step have sources and targets of any length. The
kernel reads only the keys of each row, so one graph serves all lengths.
"""

from importlib.util import find_spec

import torch
import torch.nn.functional as F
from torch import Tensor

from model.layers.attention import AttendRows


def row_attention(device: torch.device) -> AttendRows:
    """Returns the Triton kernel on a GPU, where Triton is installed; otherwise PyTorch's way."""
    if device.type == "cuda" and find_spec("triton") is not None:
        from model.backends.cuda.row_kernel import attend_rows

        return attend_rows
    return attend_masked


def attend_masked(query: Tensor, key: Tensor, value: Tensor, lengths: Tensor) -> Tensor:
    """Returns the attention (B, H, 1, K) by PyTorch, which reads the keys of padding too.

    Args:
        query: (B, H, 1, K).
        key: (B, H, S, K).
        value: (B, H, S, K).
        lengths: Number of keys of each row (B,). A row without keys attends to the first one.
    """
    places = torch.arange(key.shape[2], device=key.device)
    mask = places < lengths.clamp_min(1)[:, None]  # (B, S)
    return F.scaled_dot_product_attention(query, key, value, attn_mask=mask[:, None, None, :])
