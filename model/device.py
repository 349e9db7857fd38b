"""Selects the device of a model."""

import torch

from model.errors import DeviceError


def select_device(name: str) -> torch.device:
    """Returns the device of that name; `auto` selects a CUDA device if there is one, else the CPU.

    A CUDA device with an index, such as `cuda:1`, becomes the current device of the thread.

    Raises:
        DeviceError: The name is unknown, or the machine has no such device.
    """
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
