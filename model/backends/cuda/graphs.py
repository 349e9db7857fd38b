"""Captures functions as CUDA graphs, and copies integers to and from their fixed tensors.

One launch of a graph replaces the launches of all its kernels. A decode step of the built-in models
has dozens of kernels. The copies are asynchronous: the call that starts a copy returns before the
copy has ended. Each pinned buffer therefore has an event that marks the end of its last copy.
"""

import logging
import traceback
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from itertools import cycle
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

logger = logging.getLogger("regard.graphs")

Shape = tuple[int, ...]  # the arguments of a captured function
Function = Callable[..., None]


class Graphs:
    """Captures and runs functions that read and write only tensors at fixed addresses.

    On a CPU, every function runs without a graph. `native_bytes` is the memory that the graphs
    share; `held_bytes` in `service.workers.device_memory` adds it to the memory of a model.
    """

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.captured: dict[tuple[str, Shape], torch.cuda.CUDAGraph] = {}
        self.native_bytes = 0

    def run(self, function: Function, *shape: int) -> None:
        graph = self.captured.get((function.__name__, shape))
        if graph is None:
            function(*shape)
        else:
            graph.replay()

    @torch.inference_mode()
    def capture(self, calls: Iterable[tuple[Function, Shape]]) -> None:
        """Captures each function for its shape, in the given order, if the device is a GPU.

        The method calls each function twice: first without a graph, then to record the graph. The
        graphs share one memory pool, because no two graphs run at once and no graph leaves data in
        the pool. The largest graph should come first: smaller graphs then fit into its memory. If
        the device refuses a capture, no graph is used.

        A capture does not wait for the work of other threads, so other models go on serving. If
        memory runs out, PyTorch's cached memory is released, and all functions are captured again.
        The release makes other threads wait.
        """
        if self.device.type != "cuda":
            return
        listed = [*calls]
        try:
            with torch.cuda.device(self.device):
                if not self._fits(listed):
                    torch.cuda.empty_cache()  # a capture cannot use memory that PyTorch caches
                    self._capture(listed)
        except torch.OutOfMemoryError:
            self.captured.clear()
            raise
        except RuntimeError as error:
            self.captured.clear()
            logger.warning("CUDA graphs are not available, so decode steps take longer: %s", error)

    def _fits(self, calls: Sequence[tuple[Function, Shape]]) -> bool:
        try:
            self._capture(calls)
        except torch.OutOfMemoryError as error:
            traceback.clear_frames(error.__traceback__)  # the frames hold the graph that failed
            self.captured.clear()
            return False
        return True

    def _capture(self, calls: Iterable[tuple[Function, Shape]]) -> None:
        pool = torch.cuda.graph_pool_handle()
        stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        stream.wait_stream(torch.cuda.current_stream())
        try:
            with torch.cuda.stream(stream):
                for function, shape in calls:
                    self.captured[function.__name__, shape] = captured(function, shape, pool)
        finally:
            torch.cuda.current_stream().wait_stream(stream)
        segments = torch.cuda.memory_snapshot()  # type: ignore[no-untyped-call]
        own = [each for each in segments if tuple(each.get("segment_pool_id", ())) == tuple(pool)]
        self.native_bytes = sum(each["total_size"] for each in own)


def captured(function: Function, shape: Shape, pool: Any) -> torch.cuda.CUDAGraph:
    """Returns the graph of a call, captured in the current stream with memory from `pool`."""
    function(*shape)  # loads kernels and allocates workspaces, which a capture cannot do
    graph = torch.cuda.CUDAGraph()
    graph.capture_begin(pool=pool, capture_error_mode="thread_local")
    try:
        function(*shape)
    except BaseException:
        with suppress(RuntimeError):  # the end of a failed capture may fail too
            graph.capture_end()
        raise
    graph.capture_end()
    return graph


Integers = NDArray[np.int64]


class Mark:
    """A point in the work of a device, such as the end of a copy. A CPU is always past it."""

    def __init__(self, device: torch.device) -> None:
        is_cuda = device.type == "cuda"
        self.device = device
        self.event: Any = torch.cuda.Event() if is_cuda else None  # type: ignore[no-untyped-call]

    def set(self) -> None:
        """Marks the end of all work that has been launched."""
        if self.event is not None:
            self.event.record(torch.cuda.current_stream(self.device))

    @property
    def is_reached(self) -> bool:
        return self.event is None or bool(self.event.query())

    def wait(self) -> None:
        """Waits until the device has reached the mark; returns at once if none was set."""
        if self.event is not None:
            self.event.synchronize()


class Slot(Mark):
    """A pinned buffer on the host, with a mark after its last copy."""

    def __init__(self, size: int, device: torch.device, dtype: torch.dtype = torch.long) -> None:
        super().__init__(device)
        self.tensor = torch.zeros(size, dtype=dtype, pin_memory=device.type == "cuda")
        self.numbers: NDArray[Any] = self.tensor.numpy()

    def copy(self, source: Tensor, target: Tensor) -> None:
        """Starts a copy between the buffer and a tensor on the device."""
        target.copy_(source, non_blocking=True)
        self.set()


class Uploads:
    """Copies integers from the host to one fixed tensor on the device.

    The device runs copies and kernels in the order of their launch. A kernel therefore reads the
    integers of the latest `send` that preceded its launch. At most `slots` copies are pending.
    """

    def __init__(self, size: int, device: torch.device, slots: int = 16) -> None:
        self.slots = cycle([Slot(size, device) for _ in range(slots)])
        self.arrived = torch.zeros(size, dtype=torch.long, device=device)

    def send(self, *parts: Integers) -> None:
        """Copies the concatenated parts to the first elements of `arrived`.

        Waits only if all slots have pending copies.
        """
        numbers = np.concatenate([part.ravel() for part in parts])
        size, slot = len(numbers), next(self.slots)
        slot.wait()
        slot.numbers[:size] = numbers
        slot.copy(slot.tensor[:size], self.arrived[:size])


class Downloads:
    """Copies numbers from the device to the host while the device goes on computing.

    If all slots are in use, a copy overwrites the oldest one, even if it is unread.
    """

    def __init__(
        self, size: int, device: torch.device, slots: int, dtype: torch.dtype = torch.long
    ) -> None:
        self.slots = cycle([Slot(size, device, dtype) for _ in range(slots)])

    def fetch(self, numbers: Tensor) -> Slot:
        slot = next(self.slots)
        slot.copy(numbers, slot.tensor[: len(numbers)])
        return slot
