"""Captures the vectors of one token: its embedding, and the vectors of one layer."""

from collections.abc import Collection
from dataclasses import dataclass

from torch import Tensor

from model.architectures.embedding import TokenParts
from model.inspection.captures.capture import AttentionSite, Capture, ProjectedHeads, Slices
from model.inspection.query import AttentionKind, StatesQuery
from model.inspection.states import Array, TokenStates
from model.layers.attention import attention_weights


@dataclass(frozen=True, slots=True)
class LayerStates:
    """The captured vectors (D) of the token in the layer; see `TokenStates`."""

    input: Tensor
    attention: Tensor
    attended: Tensor
    feed_forward: Tensor | None
    output: Tensor


class StatesCapture(Capture):
    """Captures the vectors of one token in one layer.

    Args:
        query: Query for the vectors.
    """

    needs_embedding = True

    def __init__(self, query: StatesQuery) -> None:
        self.query = query
        self.parts: TokenParts | None = None
        self.states: LayerStates | None = None

    def layers(self, kind: AttentionKind) -> Collection[int]:
        """Returns the layer of the query."""
        return (self.query.layer,) if kind is self.query.kind else ()

    def observe_embedding(self, kind: AttentionKind, parts: TokenParts) -> None:
        """Captures the input of the encoder, or of the decoder if the token is in the decoder."""
        in_encoder = self.query.kind is AttentionKind.ENCODER
        if in_encoder is (kind is AttentionKind.ENCODER):
            token, position = parts.token, parts.position
            self.parts = TokenParts(
                self._row(token),
                None if position is None else self._row(position),
                self._row(parts.embedded),
            )

    def observe(self, site: AttentionSite, projected: ProjectedHeads) -> Slices[None]:
        """Captures the token's vectors, and computes the rest of the layer for this token."""
        row = slice(self.query.query, self.query.query + 1)
        bias = None if projected.bias is None else projected.bias[..., row, :]
        weights = attention_weights(projected.query[:, row], projected.key, bias)  # (H, 1, S)
        output = projected.module.merge((weights @ projected.value)[None])[0]  # (1, D)
        stream, rest = projected.stream[row], projected.rest
        attended = rest.add(stream, output)
        feed_forward = None if rest.feed_forward is None else rest.feed_forward(attended)[0]
        self.states = LayerStates(
            # The vector is copied, because the batch may overwrite the stream.
            stream[0].clone(),
            output[0],
            attended[0],
            feed_forward,
            rest.finish(attended)[0],
        )
        yield from ()  # nothing to yield: the work is a single slice

    def result(self) -> TokenStates:
        """Returns the vectors, on the host."""
        assert self.parts is not None
        assert self.states is not None
        parts, states = self.parts, self.states
        return TokenStates(
            token=on_host(parts.token),
            position=None if parts.position is None else on_host(parts.position),
            embedded=on_host(parts.embedded),
            input=on_host(states.input),
            attention=on_host(states.attention),
            attended=on_host(states.attended),
            feed_forward=None if states.feed_forward is None else on_host(states.feed_forward),
            output=on_host(states.output),
        )

    def _row(self, vectors: Tensor) -> Tensor:
        return vectors[0, self.query.query]


def on_host(vector: Tensor) -> Array:
    """Returns a vector as a float32 array."""
    array: Array = vector.float().cpu().numpy()
    return array
