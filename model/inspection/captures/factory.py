"""Makes the capture of each query of a job."""

import torch

from model.inspection.captures.capture import Capture
from model.inspection.captures.maps import MapsCapture
from model.inspection.captures.probabilities import ProbabilityCapture
from model.inspection.captures.states import StatesCapture
from model.inspection.captures.trace import TraceCapture
from model.inspection.query import (
    AttentionJob,
    ProbabilityQuery,
    Query,
    StatesQuery,
    TraceQuery,
)


def new_captures(job: AttentionJob, device: torch.device, slice_rows: int) -> list[Capture]:
    """Returns a capture for each query of a job.

    Args:
        job: A sentence, its translation and the queries.
        device: Device of the captured tensors.
        slice_rows: Number of rows of a map (attending tokens) that a slice computes.
    """
    lengths = len(job.source), len(job.target)
    return [_new_capture(query, lengths, device, slice_rows) for query in job.queries]


def _new_capture(
    query: Query, lengths: tuple[int, int], device: torch.device, slice_rows: int
) -> Capture:
    if isinstance(query, TraceQuery):
        return TraceCapture(query)
    if isinstance(query, StatesQuery):
        return StatesCapture(query)
    if isinstance(query, ProbabilityQuery):
        return ProbabilityCapture(query)
    maps = {kind: torch.zeros(query.shape(kind, *lengths), device=device) for kind in query.kinds}
    return MapsCapture(query, maps, slice_rows)
