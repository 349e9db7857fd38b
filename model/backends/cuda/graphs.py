"""Captures functions as CUDA graphs; the functions use only tensors at fixed addresses.

One launch of a graph replaces the launches of all its kernels. A decode step of the built-in models
has dozens of kernels.
"""

import logging
import traceback
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import Any

import torch

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
        self.native_bytes = pool_bytes(pool)


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


def pool_bytes(pool: Any) -> int:
    segments = torch.cuda.memory_snapshot()  # type: ignore[no-untyped-call]
    return sum(
        segment["total_size"]
        for segment in segments
        if tuple(segment.get("segment_pool_id", ())) == tuple(pool)
    )
