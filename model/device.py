"""Which device computes, and in which precision."""

from pathlib import Path

import torch

from model.errors import DeviceError

DTYPES = {
    "float32": torch.float32,
    "fp32": torch.float32,
    "bfloat16": torch.bfloat16,
    "bf16": torch.bfloat16,
}


def select_device(name: str) -> torch.device:
    """The device of that name; `auto` takes CUDA where there is one.

    Raises:
        DeviceError: The name is unknown, or the machine has no such device.
    """
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
    except RuntimeError as error:
        raise DeviceError(f"device {name!r} is unknown; use auto, cpu, cuda or cuda:N") from error
    if device.type not in ("cpu", "cuda"):
        raise DeviceError(f"device {name!r} is not supported; use auto, cpu, cuda or cuda:N")
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        raise DeviceError(
            f"device {name!r} is not here: {torch.cuda.device_count()} CUDA devices found; use cpu"
        )
    return device


def select_dtype(name: str, device: torch.device) -> torch.dtype:
    """The precision of that name; `auto` takes bfloat16 only where the hardware is fast at it.

    Raises:
        DeviceError: The name is none of auto, float32, fp32, bfloat16, bf16.
    """
    if name == "auto":
        return torch.bfloat16 if has_fast_bfloat16(device) else torch.float32
    if name not in DTYPES:
        raise DeviceError(f"dtype {name!r} is unknown; use auto, {', '.join(DTYPES)}")
    return DTYPES[name]


def has_fast_bfloat16(device: torch.device) -> bool:
    """Whether bfloat16 has matrix units: tensor cores from Ampere on, AMX tiles on a CPU.

    AVX-512 BF16 alone does not count: measured on such a machine, 64 rows ran 1.7 times as
    fast as in float32, but a lone sentence a quarter slower, and its bits depend on its batch.
    """
    if device.type == "cuda":
        return torch.cuda.get_device_capability(device) >= (8, 0)
    try:
        flags = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False
    return "amx_bf16" in flags
