"""Choice of a model's precision: float32, bfloat16 or int8."""

from enum import StrEnum
from pathlib import Path

import torch

from model.errors import DeviceError

MIN_COSINE = 0.998
"""Least mean cosine between int8 and float32 vectors of a sample with which `auto` takes int8.

The loader of an embedding model embeds the sample in both. The sample gives 0.9990 for
all-MiniLM-L6-v2, and 2,000 real sentences give 0.9992. The correlation with human judgements of
similarity is the same within 0.05 points of 100.
"""


class Precision(StrEnum):
    """The number format of weights and activations."""

    FLOAT32 = "float32"
    BFLOAT16 = "bfloat16"
    INT8 = "int8"

    @property
    def dtype(self) -> torch.dtype:
        """Returns the type of the activations; between int8 products they are float32."""
        return torch.bfloat16 if self is Precision.BFLOAT16 else torch.float32


SHORT_NAMES = {"fp32": Precision.FLOAT32, "bf16": Precision.BFLOAT16}


def select_precision(name: str, device: torch.device, is_int8: bool = False) -> Precision:
    """Returns the precision of that name.

    `auto` selects int8 on a CPU if native code multiplies in int8 and quality does not suffer. It
    selects bfloat16 on hardware that is fast at it, and float32 otherwise.

    Args:
        name: A precision, or `auto`.
        device: Device that computes.
        is_int8: Whether `auto` selects int8 on a CPU.

    Raises:
        DeviceError: The name is unknown, or the device does not support the precision.
    """
    if name == "auto" and is_int8 and device.type == "cpu":
        return Precision.INT8
    if name == "auto":
        return Precision.BFLOAT16 if has_fast_bfloat16(device) else Precision.FLOAT32
    try:
        precision = SHORT_NAMES.get(name) or Precision(name)
    except ValueError as error:
        known = ", ".join([*Precision, *SHORT_NAMES])
        raise DeviceError(f"dtype {name!r} is unknown; use auto, {known}") from error
    if precision is Precision.INT8 and device.type != "cpu":
        raise DeviceError(f"dtype int8 is for a CPU; on {device} use bfloat16 or float32")
    return precision


def has_fast_bfloat16(device: torch.device) -> bool:
    """Returns whether the device has matrix units for bfloat16.

    These are tensor cores (Ampere or later) on a GPU and AMX tiles on a CPU. AVX-512 BF16 alone
    does not count. There 64 rows ran 1.7 times as fast as in float32. But a single sentence ran a
    quarter slower, and its bits depended on its batch.
    """
    if device.type == "cuda":
        return torch.cuda.get_device_capability(device) >= (8, 0)
    try:
        flags = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False
    return "amx_bf16" in flags
