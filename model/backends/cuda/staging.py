"""Integers between host and device without waiting, through pinned memory.

A copy under way reads or writes its memory after the call that started it has returned: each
piece of memory has an event that tells when it may be touched again.
"""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

Integers = NDArray[np.int64]


def upload(numbers: list[int], device: torch.device) -> Tensor:
    """The numbers on the device, in memory of their own.

    What was pinned for it may be let go at once: PyTorch gives pinned memory out again only when
    the copies from it are done.
    """
    tensor = torch.tensor(numbers)
    if device.type == "cpu":
        return tensor
    return tensor.pin_memory().to(device, non_blocking=True)


class Slot:
    """A piece of host memory, and whether a copy from or to it may still be under way.

    Args:
        size: Integers.
        device: Where copies come from or go to; with a CPU there is nothing to wait for.
    """

    def __init__(self, size: int, device: torch.device) -> None:
        is_cuda = device.type == "cuda"
        self.device = device
        self.tensor = torch.zeros(size, dtype=torch.long, pin_memory=is_cuda)
        self.numbers: Integers = self.tensor.numpy()
        self.event = torch.cuda.Event() if is_cuda else None  # type: ignore[no-untyped-call]

    def record(self) -> None:
        """The copy was started."""
        if self.event is not None:
            self.event.record(torch.cuda.current_stream(self.device))

    def wait(self) -> None:
        """Returns when the last copy is done, which it is where there was none."""
        if self.event is not None:
            self.event.synchronize()


class Uploads:
    """Integers from the host to one place on the device, where they stay until the next ones.

    What reads them there is started before the next are sent, and so are the copies: the device
    does all in that order.

    Args:
        size: Integers at most.
        device: Where they go.
        slots: Copies under way before a new one has to wait.
    """

    def __init__(self, size: int, device: torch.device, slots: int = 16) -> None:
        self.arrived = torch.zeros(size, dtype=torch.long, device=device)
        self.slots = [Slot(size, device) for _ in range(slots)]
        self.count = 0

    def send(self, *parts: Integers) -> None:
        """Puts the parts side by side, from the start of `arrived` on."""
        numbers = np.concatenate([part.ravel() for part in parts])
        size = len(numbers)
        slot = self.slots[self.count % len(self.slots)]
        self.count += 1
        slot.wait()
        slot.numbers[:size] = numbers
        self.arrived[:size].copy_(slot.tensor[:size], non_blocking=True)
        slot.record()


class Downloads:
    """Integers from the device to the host, to be read while later ones are computed.

    Args:
        size: Integers at most.
        device: Where they come from.
        slots: How many may be under way or unread; older ones are overwritten.
    """

    def __init__(self, size: int, device: torch.device, slots: int) -> None:
        self.slots = [Slot(size, device) for _ in range(slots)]
        self.count = 0

    def fetch(self, numbers: torch.Tensor) -> Slot:
        """Starts a copy of these; once the slot was waited for, they are its first."""
        slot = self.slots[self.count % len(self.slots)]
        self.count += 1
        slot.tensor[: len(numbers)].copy_(numbers, non_blocking=True)
        slot.record()
        return slot
