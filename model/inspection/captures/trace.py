"""Captures the whole computation of one token's attention in one head."""

from collections.abc import Collection

from torch import Tensor

from model.inspection.captures.capture import AttentionSite, Capture, ProjectedHeads, Slices
from model.inspection.captures.head_matrices import float_weight
from model.inspection.query import AttentionKind, TraceQuery
from model.inspection.trace import AttentionTrace, trace_attention


class TraceCapture(Capture):
    """Captures the inputs of one token's attention, in all heads of a layer.

    The inputs are the queries of the token, the attended keys and values, and the weight and bias
    of the output projection. In some text encoders, a bias of the scores is also an input.

    Args:
        query: Names the layer, the head and the token.
    """

    def __init__(self, query: TraceQuery) -> None:
        self.query = query
        self.tensors: list[Tensor] = []

    def layers(self, kind: AttentionKind) -> Collection[int]:
        """Returns the queried layer; no layer for another kind of attention."""
        return (self.query.layer,) if kind is self.query.kind else ()

    def observe(self, site: AttentionSite, projected: ProjectedHeads) -> Slices[None]:
        """Captures the inputs of the computation.

        In the decoder's self-attention, a token attends to itself and to earlier tokens. Only the
        keys and values of these tokens are captured.
        """
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
        """Returns the trace, computed on the host."""
        query, key, value, *others = (t.float().cpu().numpy() for t in self.tensors)
        return trace_attention(query, key, value, self.query.head, *others)
