"""Captures functions of tensors at fixed addresses as CUDA graphs.

A graph is one launch in place of about a hundred.
"""

import logging
from collections.abc import Callable, Iterable

import torch

logger = logging.getLogger("regard.graphs")

Shape = tuple[int, ...]
Function = Callable[..., None]


class Graphs:
    """Captures and runs functions that read and write only tensors at fixed addresses.

    Args:
        device: Device of the tensors; without CUDA every function runs without a graph.
    """

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.captured: dict[tuple[str, Shape], torch.cuda.CUDAGraph] = {}

    def run(self, function: Function, *shape: int) -> None:
        """Replays the graph of the function and shape, or calls the function if there is none."""
        graph = self.captured.get((function.__name__, shape))
        if graph is None:
            function(*shape)
        else:
            graph.replay()

    @torch.inference_mode()
    def capture(self, calls: Iterable[tuple[Function, Shape]]) -> None:
        """Captures functions with shapes, in this order; each function is called twice.

        The graphs share one memory pool: no two run at once, and none leaves data there. The
        largest graph should come first. If the device refuses a capture, no graph is used.
        """
        if self.device.type != "cuda":
            return
        try:
            with torch.cuda.device(self.device):
                self._capture(calls)
        except RuntimeError as error:
            self.captured.clear()
            logger.warning("CUDA graphs are not available, so decode steps take longer: %s", error)

    def _capture(self, calls: Iterable[tuple[Function, Shape]]) -> None:
        pool = torch.cuda.graph_pool_handle()
        stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):  # a failed capture would leave its stream current
            for function, shape in calls:
                function(
                    *shape
                )  # loads kernels and allocates workspaces, which a capture cannot do
                graph = torch.cuda.CUDAGraph()
                with torch.cuda.graph(
                    graph, pool=pool, stream=stream, capture_error_mode="thread_local"
                ):
                    function(*shape)
                self.captured[function.__name__, shape] = graph
        torch.cuda.current_stream().wait_stream(stream)
