"""Selects the device of a model and its precision: float32, bfloat16, float16 or int8."""

from enum import StrEnum
from pathlib import Path

import torch

from model.errors import DeviceError


class Precision(StrEnum):
    """The number format of the weights, and of the values that are multiplied by weights."""

    FLOAT32 = "float32"
    BFLOAT16 = "bfloat16"
    FLOAT16 = "float16"
    INT8 = "int8"

    @property
    def dtype(self) -> torch.dtype:
        return torch.float32 if self is Precision.INT8 else getattr(torch, self.value)


SHORT_NAMES = {"fp32": Precision.FLOAT32, "bf16": Precision.BFLOAT16, "fp16": Precision.FLOAT16}


def select_precision(name: str, device: torch.device, is_int8: bool = False) -> Precision:
    """Returns the precision that the name selects; `is_int8` is for native code on a CPU.

    `auto` selects int8 if `is_int8` is true on a CPU, and else bfloat16 or float16 if the device
    has matrix units for it. The loaders then check that int8 and float16 hardly change results.
    """
    if name == "auto" and is_int8 and device.type == "cpu":
        return Precision.INT8
    if name == "auto":
        return fastest_float(device)
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


def fastest_float(device: torch.device) -> Precision:
    """Returns bfloat16 or float16 if the device has matrix units for it, and else float32.

    On a CPU, AMX tiles count, but AVX-512 BF16 does not. With it, a sentence alone ran a quarter
    slower than in float32. Its result was not bit-identical to its result in a batch.
    """
    if device.type == "cuda":
        capability = torch.cuda.get_device_capability(device)
        if capability < (7, 0):  # before Volta
            return Precision.FLOAT32
        return Precision.BFLOAT16 if capability >= (8, 0) else Precision.FLOAT16
    try:
        flags = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return Precision.FLOAT32
    return Precision.BFLOAT16 if "amx_bf16" in flags else Precision.FLOAT32


def select_device(name: str) -> torch.device:
    """Makes a CUDA device with an index, such as `cuda:1`, the current device of the thread."""
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        device = torch.device(name)
    except RuntimeError as error:
        raise DeviceError(f"device {name!r} is unknown; use auto, cpu, cuda or cuda:N") from error
    if device.type not in ("cpu", "cuda"):
        raise DeviceError(f"device {name!r} is not supported; use auto, cpu, cuda or cuda:N")
    if device.type == "cuda" and (device.index or 0) >= (count := torch.cuda.device_count()):
        usable = " or ".join([*(f"cuda:{number}" for number in range(count)), "cpu"])
        raise DeviceError(
            f"device {name!r} does not exist: {count} CUDA devices found; use {usable}"
        )
    if device.type == "cuda":
        # For the whole process: cuDNN's attention would compile a kernel for every shape.
        torch.backends.cuda.enable_cudnn_sdp(False)
        # Without `set_device`, CUDA events and memory sizes would be those of GPU 0.
        if device.index is not None:
            torch.cuda.set_device(device)
    return device
