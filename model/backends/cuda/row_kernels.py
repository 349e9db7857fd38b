"""Selects the kernels of decode steps for a device: Triton's or PyTorch's.

A CUDA graph has fixed shapes, but the rows of a step have sources and targets of any length. A
tensor on the device holds the number of keys of each row. Triton's attention kernel reads only this
number of keys, so one graph serves all lengths.
"""

import logging
from importlib.util import find_spec

import torch

from model.layers.row_kernels import PLAIN, RowKernels

logger = logging.getLogger("regard.graphs")

MIN_CAPABILITY = (8, 0)
"""Compute capability of the oldest GPUs for which Triton compiles kernels (Ampere)."""


def row_kernels(device: torch.device, dtype: torch.dtype) -> RowKernels:
    """Returns Triton's kernels if Triton can compile them for the device, else PyTorch's.

    Triton compiles a kernel at its first launch. This function therefore launches each kernel once.
    Triton needs a C compiler, and a writable folder for the compiled code. The environment variable
    TRITON_CACHE_DIR can name this folder.

    Raises:
        torch.OutOfMemoryError: The device has too little memory.
    """
    if device.type != "cuda" or find_spec("triton") is None:
        return PLAIN
    if torch.cuda.get_device_capability(device) < MIN_CAPABILITY:
        return PLAIN
    try:
        from model.backends.cuda.triton_kernels import TritonKernels

        kernels = TritonKernels()
        launch_all(kernels, device, dtype)
    except torch.OutOfMemoryError:
        raise
    except Exception as error:  # Triton raises errors of many types
        logger.warning("Triton cannot compile kernels, so decode steps take longer: %s", error)
        return PLAIN
    return kernels


def launch_all(kernels: RowKernels, device: torch.device, dtype: torch.dtype) -> None:
    """Launches each kernel on tensors of one row, and `attend` with and without a new key."""
    heads = torch.zeros(1, 1, 1, 32, device=device, dtype=dtype)
    vector, ids = heads[0], torch.ones(1, 1, dtype=torch.long, device=device)
    norm = torch.nn.LayerNorm(32, device=device, dtype=dtype)
    with torch.inference_mode():
        for new in (None, (heads, heads)):
            kernels.attend(heads, heads.clone(), heads.clone(), ids[0], new)
        kernels.embed(0 * ids, 0 * ids, vector[0], vector[0], 1.0)
        kernels.add_norm(vector, vector, norm)
        kernels.recur(vector, vector, torch.zeros_like(vector[0]))
        kernels.choose(vector[0], ids[0], ids[0].clone())
