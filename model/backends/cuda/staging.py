"""Copies integers between host and device through pinned memory, asynchronously.

The call that starts an asynchronous copy returns before the copy has ended. Each buffer therefore
has an event that marks the end of its last copy.
"""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

Integers = NDArray[np.int64]


def upload(numbers: list[int] | Integers, device: torch.device) -> Tensor:
    """Returns the integers as a tensor on the device.

    PyTorch reuses pinned memory only after its copy, so the pinned tensor may be freed before.
    """
    tensor = torch.as_tensor(numbers)
    if device.type == "cpu":
        return tensor
    return tensor.pin_memory().to(device, non_blocking=True)


class Slot:
    """A pinned buffer on the host, with an event for its last copy."""

    def __init__(self, size: int, device: torch.device) -> None:
        is_cuda = device.type == "cuda"
        self.device = device
        self.tensor = torch.zeros(size, dtype=torch.long, pin_memory=is_cuda)
        self.numbers: Integers = self.tensor.numpy()
        self.event = torch.cuda.Event() if is_cuda else None  # type: ignore[no-untyped-call]

    def record(self) -> None:
        if self.event is not None:
            self.event.record(torch.cuda.current_stream(self.device))

    def wait(self) -> None:
        """Waits until the last copy has ended; returns at once if there was none."""
        if self.event is not None:
            self.event.synchronize()


class Slots:
    """Pinned buffers that are used in turn."""

    def __init__(self, size: int, device: torch.device, slots: int) -> None:
        self.slots = [Slot(size, device) for _ in range(slots)]
        self.count = 0

    def take(self) -> Slot:
        self.count += 1
        return self.slots[(self.count - 1) % len(self.slots)]


class Uploads(Slots):
    """Copies integers from the host to one fixed tensor on the device.

    The device runs copies and kernels in the order of their launch. A kernel therefore reads the
    integers of the latest `send` that preceded its launch. At most `slots` copies are pending.
    """

    def __init__(self, size: int, device: torch.device, slots: int = 16) -> None:
        super().__init__(size, device, slots)
        self.arrived = torch.zeros(size, dtype=torch.long, device=device)

    def send(self, *parts: Integers) -> None:
        """Copies the concatenated parts to the first elements of `arrived`.

        Waits only if all slots have pending copies.
        """
        numbers = np.concatenate([part.ravel() for part in parts])
        size, slot = len(numbers), self.take()
        slot.wait()
        slot.numbers[:size] = numbers
        self.arrived[:size].copy_(slot.tensor[:size], non_blocking=True)
        slot.record()


class Downloads(Slots):
    """Copies integers from the device to the host while the device goes on computing.

    If all slots are in use, a copy overwrites the oldest one, even if it is unread.
    """

    def fetch(self, numbers: torch.Tensor) -> Slot:
        slot = self.take()
        slot.tensor[: len(numbers)].copy_(numbers, non_blocking=True)
        slot.record()
        return slot
