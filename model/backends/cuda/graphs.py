"""Functions of tensors that never move, as CUDA graphs: one launch instead of a hundred."""

import logging
from collections.abc import Callable, Iterable

import torch

logger = logging.getLogger("regard.graphs")

Shape = tuple[int, ...]
Function = Callable[..., None]


class Graphs:
    """Runs functions that read and write only tensors which were there before, and stay.

    Args:
        device: Without CUDA every function runs as it is.
    """

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.captured: dict[tuple[str, Shape], torch.cuda.CUDAGraph] = {}

    def run(self, function: Function, *shape: int) -> None:
        """Calls the function with this shape, as a graph where it was captured."""
        graph = self.captured.get((function.__name__, shape))
        if graph is None:
            function(*shape)
        else:
            graph.replay()

    @torch.inference_mode()
    def capture(self, calls: Iterable[tuple[Function, Shape]]) -> None:
        """Captures functions with shapes, in this order; each is called twice.

        They share their memory, for no two run at once and none leaves anything there: the
        largest should come first. On a device that refuses one, all run as they are.
        """
        if self.device.type != "cuda":
            return
        try:
            with torch.cuda.device(self.device):
                self._capture(calls)
        except RuntimeError as error:
            self.captured.clear()
            logger.warning("no CUDA graphs, steps will take longer: %s", error)

    def _capture(self, calls: Iterable[tuple[Function, Shape]]) -> None:
        pool = torch.cuda.graph_pool_handle()
        stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):  # a capture that fails would leave its stream behind
            for function, shape in calls:
                function(*shape)  # loads kernels and allocates workspaces, which a capture cannot
                graph = torch.cuda.CUDAGraph()
                with torch.cuda.graph(
                    graph, pool=pool, stream=stream, capture_error_mode="thread_local"
                ):
                    function(*shape)
                self.captured[function.__name__, shape] = graph
        torch.cuda.current_stream().wait_stream(stream)
