"""Computes the attention of one query per row to the row's own keys.

A tensor on the device holds the number of keys of each row.

A CUDA graph has fixed shapes, but the rows of a step have sources and targets of any length. The
kernel reads only the keys of each row, so one graph serves all lengths.
"""

import logging
from importlib.util import find_spec

import torch
import torch.nn.functional as F
from torch import Tensor

from model.layers.attention import AttendRows

logger = logging.getLogger("regard.graphs")

MIN_CAPABILITY = (8, 0)
"""Compute capability of the oldest GPUs for which Triton compiles kernels (Ampere)."""


def row_attention(device: torch.device) -> AttendRows:
    """Returns the Triton kernel if Triton can compile it for the device, else `attend_masked`.

    Triton compiles the kernel at its first launch. This needs a C compiler, and a writable folder
    for the compiled code. The environment variable TRITON_CACHE_DIR can name this folder.
    """
    if device.type != "cuda" or find_spec("triton") is None:
        return attend_masked
    if torch.cuda.get_device_capability(device) < MIN_CAPABILITY:
        return attend_masked
    try:
        from model.backends.cuda.row_kernel import attend_rows

        heads = torch.zeros(1, 1, 1, 32, device=device)
        attend_rows(heads, heads, heads, torch.ones(1, dtype=torch.long, device=device))
    except torch.OutOfMemoryError:
        raise
    except Exception as error:  # Triton raises errors of many types
        logger.warning(
            "Triton cannot compile the attention kernel, so decode steps take longer: %s", error
        )
        return attend_masked
    return attend_rows


def attend_masked(query: Tensor, key: Tensor, value: Tensor, lengths: Tensor) -> Tensor:
    """Computes the attention (B, H, 1, K) in PyTorch, which also reads the keys of padding.

    Args:
        query: (B, H, 1, K).
        key: (B, H, S, K).
        value: (B, H, S, K).
        lengths: Number of keys of each row (B,). A query without keys reads position 0.
    """
    positions = torch.arange(key.shape[2], device=key.device)
    mask = positions < lengths.clamp_min(1)[:, None]  # (B, S)
    return F.scaled_dot_product_attention(query, key, value, attn_mask=mask[:, None, None, :])
