"""Measures the time for which a device computes; the shares of task kinds refer to this time.

On a CPU, the computation has ended when a call returns. A GPU may compute after the call has
returned, so its time is measured by events in the GPU's stream of work.
"""

import time
from collections import deque
from collections.abc import Callable
from typing import Any

import torch

MAX_PENDING = 2
"""Number of steps that a GPU may have pending. With a larger number, a task kind could launch more
work than its credit allows, before the time of its first steps is known. The module
`service.workers.time_share` explains credits."""


class HostTimer:
    """Measures the time between `start` and `stop`, for a CPU."""

    began: Any = 0.0

    def start(self) -> None:
        self.began = time.perf_counter()

    def stop(self) -> float:
        """Ends a step; returns the seconds to charge to the executor."""
        seconds: float = time.perf_counter() - self.began
        return seconds

    def abandon(self) -> float:
        """Ends a step that failed; returns the seconds to charge to the executor."""
        return self.stop()


def new_event() -> Any:
    return torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]


class GpuTimer(HostTimer):
    """Charges the executor for a step when the GPU has finished it, one or two steps later."""

    def __init__(self, device: torch.device, new_event: Callable[[], Any] = new_event) -> None:
        self.device = device
        self.new_event = new_event
        self.pending: deque[tuple[Any, Any]] = deque()
        self.began = new_event()

    def start(self) -> None:
        self.began = self._mark()

    def _mark(self) -> Any:
        event = self.new_event()
        event.record(torch.cuda.current_stream(self.device))
        return event

    def stop(self) -> float:
        """Returns the time of the steps that the GPU has finished since the last call.

        Waits while more than MAX_PENDING steps are pending.
        """
        self.pending.append((self.began, self._mark()))
        milliseconds = 0.0
        while self.pending and (len(self.pending) > MAX_PENDING or self.pending[0][1].query()):
            begin, end = self.pending.popleft()
            end.synchronize()
            milliseconds += begin.elapsed_time(end)
        return milliseconds / 1000

    def abandon(self) -> float:
        self.pending.clear()  # their events may have failed too
        return 0.0


def timer_of(device: torch.device) -> HostTimer:
    return GpuTimer(device) if device.type == "cuda" else HostTimer()
