"""Copies integers between host and device through pinned memory, without waiting.

The call that starts an asynchronous copy returns before the copy has ended. Each buffer therefore
has an event that marks the end of its last copy.
"""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

Integers = NDArray[np.int64]


def upload(numbers: list[int], device: torch.device) -> Tensor:
    """Returns the numbers as a new tensor on the device.

    The pinned source may be freed at once: PyTorch reuses pinned memory only after its copies are
    done.
    """
    tensor = torch.tensor(numbers)
    if device.type == "cpu":
        return tensor
    return tensor.pin_memory().to(device, non_blocking=True)


class Slot:
    """A pinned buffer on the host, with an event for its last copy.

    Args:
        size: Number of integers.
        device: Device at the other end of the copies; with a CPU, each copy ends at once.
    """

    def __init__(self, size: int, device: torch.device) -> None:
        is_cuda = device.type == "cuda"
        self.device = device
        self.tensor = torch.zeros(size, dtype=torch.long, pin_memory=is_cuda)
        self.numbers: Integers = self.tensor.numpy()
        self.event = torch.cuda.Event() if is_cuda else None  # type: ignore[no-untyped-call]

    def record(self) -> None:
        """Makes the event mark the end of the copy that was just started."""
        if self.event is not None:
            self.event.record(torch.cuda.current_stream(self.device))

    def wait(self) -> None:
        """Waits for the last copy, if there was one."""
        if self.event is not None:
            self.event.synchronize()


class Uploads:
    """Copies integers from the host to one fixed tensor on the device.

    The device runs copies and kernels in the order of their launch. A kernel therefore reads the
    integers of the last `send` before the kernel's launch.

    Args:
        size: Maximum number of integers.
        device: Target of the copies.
        slots: Number of copies that may be pending before a new one waits.
    """

    def __init__(self, size: int, device: torch.device, slots: int = 16) -> None:
        self.arrived = torch.zeros(size, dtype=torch.long, device=device)
        self.slots = [Slot(size, device) for _ in range(slots)]
        self.count = 0

    def send(self, *parts: Integers) -> None:
        """Copies the concatenated parts to the start of `arrived`."""
        numbers = np.concatenate([part.ravel() for part in parts])
        size = len(numbers)
        slot = self.slots[self.count % len(self.slots)]
        self.count += 1
        slot.wait()
        slot.numbers[:size] = numbers
        self.arrived[:size].copy_(slot.tensor[:size], non_blocking=True)
        slot.record()


class Downloads:
    """Copies integers from the device to the host while the device goes on computing.

    Args:
        size: Maximum number of integers.
        device: Source of the copies.
        slots: Number of copies that may be pending or unread; a further copy overwrites the oldest.
    """

    def __init__(self, size: int, device: torch.device, slots: int) -> None:
        self.slots = [Slot(size, device) for _ in range(slots)]
        self.count = 0

    def fetch(self, numbers: torch.Tensor) -> Slot:
        """Starts a copy to the start of the returned slot; `Slot.wait` waits for it."""
        slot = self.slots[self.count % len(self.slots)]
        self.count += 1
        slot.tensor[: len(numbers)].copy_(numbers, non_blocking=True)
        slot.record()
        return slot
