"""Passes for the tests of an encoder's attention."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from model.architectures.text_encoder import TextEncoder
from model.encoding.capture_pass import TextCapturePass
from model.inspection.captures.capture import Result
from model.inspection.query import (
    AttentionJob,
    AttentionKind,
    AttentionNorm,
    AttentionQuery,
    Reduction,
    TraceQuery,
)
from model.inspection.resolve import resolve_query
from model.inspection.results import AttentionTrace

ENCODER = AttentionKind.ENCODER


def text_results(
    encoder: TextEncoder,
    inputs: Sequence[list[int]],
    query: AttentionQuery | TraceQuery,
    slice_tokens: int = 128,
) -> list[Result]:
    """Returns the results of one pass over all texts, with the same query for each."""
    jobs = [AttentionJob(ids, [], (query,)) for ids in inputs]
    whole = TextCapturePass(encoder, jobs, slice_tokens)
    while whole.advance():
        pass
    return [result for (result,) in whole.results()]


def text_maps(
    encoder: TextEncoder,
    inputs: Sequence[list[int]],
    reduce: Reduction = Reduction.NONE,
    norm: AttentionNorm = AttentionNorm.WEIGHTS,
    slice_tokens: int = 128,
) -> list[NDArray[np.float32]]:
    """Returns the weights (layers, heads, T, T) of each text."""
    query = resolve_query(encoder.config, [ENCODER], reduce=reduce, norm=norm)
    found = text_results(encoder, inputs, query, slice_tokens)
    return [maps[ENCODER] for maps in found if isinstance(maps, dict)]


def text_steps(encoder: TextEncoder, ids: list[int], *query: int) -> AttentionTrace:
    """Returns the computation of one token, given by layer, head and position."""
    (result,) = text_results(encoder, [ids], TraceQuery(ENCODER, *query))
    assert isinstance(result, AttentionTrace)
    return result
