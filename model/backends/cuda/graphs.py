"""Captures functions as CUDA graphs; the functions use only tensors at fixed addresses.

One launch of a graph replaces the launches of all its kernels. A decode step of the built-in models
has about 60 kernels.
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
        device: Device of the tensors. On a CPU, every function runs without a graph.
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
        """Captures each function for its shape, in the given order, if the device is a GPU.

        It calls each function twice.

        The graphs can share one memory pool, because no two graphs run at once and no graph leaves
        data in the pool. The largest graph should come first: smaller graphs then fit into its
        memory. If the device refuses a capture, no graph is used.
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
        # torch.cuda.graph makes the capture stream current, and leaves it so if the capture fails.
        # This `with` makes the earlier stream current again.
        with torch.cuda.stream(stream):
            for function, shape in calls:
                # The first call loads kernels and allocates workspaces, which a capture cannot do.
                function(*shape)
                graph = torch.cuda.CUDAGraph()
                with torch.cuda.graph(
                    graph, pool=pool, stream=stream, capture_error_mode="thread_local"
                ):
                    function(*shape)
                self.captured[function.__name__, shape] = graph
        torch.cuda.current_stream().wait_stream(stream)
