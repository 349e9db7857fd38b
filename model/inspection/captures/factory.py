"""Makes the capture of each query of a job, and captures what concerns a single token."""

from collections.abc import Collection
from typing import Any

import torch
from torch import Tensor

from model.architectures.embedding import TokenParts
from model.inspection.captures.capture import (
    AttentionSite,
    Capture,
    ProjectedHeads,
    Slices,
    float_weight,
)
from model.inspection.captures.maps import MapsCapture
from model.inspection.captures.probabilities import ProbabilityCapture
from model.inspection.query import (
    AttentionJob,
    AttentionKind,
    ProbabilityQuery,
    Query,
    StatesQuery,
    TraceQuery,
)
from model.inspection.results import Array, AttentionTrace, TokenStates, trace_attention
from model.layers.attention import attention_weights


def new_captures(job: AttentionJob, device: torch.device, slice_rows: int) -> list[Capture]:
    """Returns a capture for each query of a job; a slice computes `slice_rows` rows of a map."""
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


class TraceCapture(Capture):
    """Captures the inputs of one token's attention, in all heads of a layer.

    The inputs are the queries of the token, the attended keys and values, and the weight and bias
    of the output projection. In some text encoders, a bias of the scores is also an input.
    """

    def __init__(self, query: TraceQuery) -> None:
        self.query = query
        self.tensors: list[Tensor] = []

    def layers(self, kind: AttentionKind) -> Collection[int]:
        return (self.query.layer,) if kind is self.query.kind else ()

    def observe(self, site: AttentionSite, projected: ProjectedHeads) -> Slices[None]:
        """Captures the inputs; in the decoder, only keys and values of the token and before it."""
        token = self.query.query
        end = token + 1 if site.kind is AttentionKind.DECODER else projected.key.shape[1]
        attended = [projected.key[:, :end], projected.value[:, :end]]
        out = projected.module.out
        weight = float_weight(out)
        bias = weight.new_zeros(len(weight)) if out.bias is None else out.bias
        self.tensors = [projected.query[:, token], *attended, weight, bias]
        if projected.bias is not None and projected.bias.dim() == 3:
            self.tensors.append(projected.bias[:, token])
        yield from ()  # nothing to yield: the work is a single slice

    def result(self) -> AttentionTrace:
        query, key, value, *others = map(on_host, self.tensors)
        return trace_attention(query, key, value, self.query.head, *others)


class StatesCapture(Capture):
    """Captures the vectors (D) of one token in one layer, by the names of `TokenStates`."""

    needs_embedding = True

    def __init__(self, query: StatesQuery) -> None:
        self.query = query
        self.vectors: dict[str, Tensor | None] = {}

    def layers(self, kind: AttentionKind) -> Collection[int]:
        return (self.query.layer,) if kind is self.query.kind else ()

    def observe_embedding(self, kind: AttentionKind, parts: TokenParts) -> None:
        """Captures the input of the encoder, or of the decoder if the token is in the decoder."""
        in_encoder = self.query.kind is AttentionKind.ENCODER
        if in_encoder is (kind is AttentionKind.ENCODER):
            at, position = (0, self.query.query), parts.position
            self.vectors |= {
                "token": parts.token[at],
                "position": None if position is None else position[at],
                "embedded": parts.embedded[at],
            }

    def observe(self, site: AttentionSite, projected: ProjectedHeads) -> Slices[None]:
        """Captures the token's vectors, and computes the rest of the layer for this token."""
        row = slice(self.query.query, self.query.query + 1)
        bias = None if projected.bias is None else projected.bias[..., row, :]
        weights = attention_weights(projected.query[:, row], projected.key, bias)  # (H, 1, S)
        output = projected.module.merge((weights @ projected.value)[None])[0]  # (1, D)
        stream, rest = projected.stream[row], projected.rest
        attended = rest.add(stream, output)
        self.vectors |= {
            "input": stream[0].clone(),  # the batch may overwrite the stream
            "attention": output[0],
            "attended": attended[0],
            "feed_forward": None if rest.feed_forward is None else rest.feed_forward(attended)[0],
            "output": rest.finish(attended)[0],
        }
        yield from ()  # nothing to yield: the work is a single slice

    def result(self) -> TokenStates:
        found: dict[str, Any] = {
            name: None if vector is None else on_host(vector)
            for name, vector in self.vectors.items()
        }
        return TokenStates(**found)


def on_host(tensor: Tensor) -> Array:
    array: Array = tensor.float().cpu().numpy()
    return array
