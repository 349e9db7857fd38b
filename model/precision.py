"""Selects the precision of a model: float32, bfloat16, float16 or int8."""

from enum import StrEnum
from pathlib import Path

import torch

from model.errors import DeviceError

MIN_COSINE = 0.998
"""Lower limit of the mean cosine between rounded and float32 vectors of sample sentences.

Rounded vectors come from an encoder in int8 or float16. The loader of an embedding model embeds the
samples before and after it rounds the encoder. If the mean cosine is below this limit, `auto` does
not select int8 or float16. For all-MiniLM-L6-v2 the mean cosine is 0.9990 on the samples, and
0.9992 on 2,000 real sentences. Rounding changes the correlation of the model's similarities with
human judgements by less than 0.0005.
"""

MIN_DEGENERATE_COSINE = 0.98
"""Lower limit of the cosine between the rounded and the float32 vector of a degenerate text.

A degenerate text is not a sentence: for example, one word a hundred times. For all-MiniLM-L6-v2 in
int8, the smallest measured cosine is 0.994. If a cosine is below the limit, `auto` does not select
int8 or float16.
"""


class Precision(StrEnum):
    """The number format of the weights, and of the values that are multiplied by weights."""

    FLOAT32 = "float32"
    BFLOAT16 = "bfloat16"
    FLOAT16 = "float16"
    INT8 = "int8"

    @property
    def dtype(self) -> torch.dtype:
        """Returns the type of the activations.

        It is float32 for int8, because activations are quantised only where weights multiply them.
        """
        return torch.float32 if self is Precision.INT8 else getattr(torch, self.value)


SHORT_NAMES = {
    "fp32": Precision.FLOAT32,
    "bf16": Precision.BFLOAT16,
    "fp16": Precision.FLOAT16,
}


def select_precision(name: str, device: torch.device, is_int8: bool = False) -> Precision:
    """Returns the precision that the name selects.

    On a CPU, `auto` selects int8 if `is_int8` is true. Otherwise `auto` selects bfloat16 on a
    device with matrix units for bfloat16. For a GPU with matrix units for float16, but not for
    bfloat16, `auto` selects float16. For all other devices, `auto` selects float32.

    With `auto`, the loaders of translation and embedding models compare a model in int8 or float16
    with its float32 form. If the two differ too much, the loader takes another precision instead
    (`model/checkpoints/build.py` and `embedding.py`). Int8 is not compared if the files already
    have int8 matrices. The loader of cross-encoders never takes int8 or float16 for `auto`.

    Args:
        name: A precision, or `auto`.
        device: Device that computes.
        is_int8: Whether native code can compute the model in int8 on a CPU.

    Raises:
        DeviceError: The name is unknown, or the device does not support the precision.
    """
    if name == "auto" and is_int8 and device.type == "cpu":
        return Precision.INT8
    if name == "auto":
        if has_fast_bfloat16(device):
            return Precision.BFLOAT16
        return Precision.FLOAT16 if has_fast_float16(device) else Precision.FLOAT32
    try:
        precision = SHORT_NAMES.get(name) or Precision(name)
    except ValueError as error:
        known = ", ".join([*Precision, *SHORT_NAMES])
        raise DeviceError(f"dtype {name!r} is unknown; use auto, {known}") from error
    if precision is Precision.INT8 and device.type != "cpu":
        raise DeviceError(f"dtype int8 is for a CPU; on {device} use bfloat16 or float32")
    if precision is Precision.FLOAT16 and device.type != "cuda":
        raise DeviceError(f"dtype float16 is for a GPU; on {device} use bfloat16 or float32")
    return precision


def has_fast_bfloat16(device: torch.device) -> bool:
    """Returns whether the device has matrix units for bfloat16.

    Such units are tensor cores (Ampere or later) on a GPU, and AMX tiles on a CPU. The instructions
    AVX-512 BF16 do not count. With these instructions, 64 rows ran 1.7 times as fast in bfloat16 as
    in float32. But a single sentence ran a quarter slower than in float32. Its result was not
    bit-identical to the result of the same sentence in a batch.
    """
    if device.type == "cuda":
        return torch.cuda.get_device_capability(device) >= (8, 0)
    try:
        flags = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False
    return "amx_bf16" in flags


def has_fast_float16(device: torch.device) -> bool:
    """Returns whether the device is a GPU with matrix units for float16 (Volta or later)."""
    return device.type == "cuda" and torch.cuda.get_device_capability(device) >= (7, 0)
