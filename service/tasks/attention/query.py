"""Resolves the layers, heads and tokens of a request against the config of a model."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from math import prod
from typing import Literal

from model.config import ModelConfig
from model.errors import AttentionQueryError
from model.inspection.query import (
    AttentionKind,
    AttentionNorm,
    AttentionQuery,
    InspectedConfig,
    Reduction,
    TraceQuery,
    plane,
    resolve_query,
    resolve_trace,
)
from model.tokenization.tokenizer import Tokenizer
from service.errors import InvalidRequestError, RequestTooLargeError
from service.tasks.attention.requests import AttentionRequest, StepsRequest

COMPUTED_PER_RETURNED = 8
"""Limit on the computed values of a request, as a multiple of the limit on returned values.

With `top_k` few values are returned, but whole rows are computed. Values that a reduction over
heads or layers combines count as one value.
"""

MAX_ZEROED_EDGES = 200_000
"""Largest number of edges that a request with `value_zeroing` may have, over all its layers.

An edge is a pair of an attending token and an attended token. For each edge, the value of the
attended token is set to zero, and the layer is computed again for the attending token. In the
built-in models, 200,000 edges take 2 seconds on one core.
"""


@dataclass(frozen=True, slots=True)
class Aligner:
    """The cross-attention that aligns words: one layer, and one head or the mean over all heads."""

    query: AttentionQuery
    shift: int  # as in `service.tasks.alignment.alignment.align`


@contextmanager
def refusing() -> Iterator[None]:
    """Converts errors of the model package about a query to errors for the client."""
    try:
        yield
    except AttentionQueryError as error:
        raise InvalidRequestError(f"Invalid request: {error}") from None


@refusing()
def attention_query(config: InspectedConfig, request: AttentionRequest) -> AttentionQuery:
    query = resolve_query(
        config,
        list(map(AttentionKind, request.kinds)),
        None if request.layers == "all" else request.layers,
        None if request.heads == "all" else request.heads,
        Reduction(request.reduce),
        AttentionNorm(request.norm),
    )
    if request.format == "bertviz":
        _check_equal_layers({kind: len(layers) for kind, layers in query.layers.items()})
    return query


def _check_equal_layers(num_layers: Mapping[AttentionKind, int]) -> None:
    """Refuses kinds with different numbers of layers: bertviz cannot show such kinds together."""
    if len(set(num_layers.values())) > 1:
        counts = ", ".join(f"{count} of {kind}" for kind, count in num_layers.items())
        raise InvalidRequestError(
            f"Invalid request: bertviz shows equally many layers of every kind, not {counts}; ask "
            f"for one kind, or for layers that all kinds have, 0 to {min(num_layers.values()) - 1}"
        )


@refusing()
def aligner_of(
    config: ModelConfig,
    layer: int | None = None,
    head: int | Literal["mean"] | None = None,
    shift: int | None = None,
) -> Aligner:
    """Returns the attention that aligns words, by default the head that was trained to align.

    A model without such a head usually aligns best with the mean over the heads of its first layer.
    In that layer the attention of row t belongs to the decoder's input, token t - 1, and not to the
    predicted token t. Therefore the rows are shifted by one (Opus-MT issue 81).

    None stands for the default layer, head or shift.
    """
    if layer is None:
        layer = config.aligning_layer
    if head is None:
        head = "mean" if config.aligning_head is None else config.aligning_head
    if shift is None:
        shift = default_shift(config, layer)
    heads = None if head == "mean" else [head]
    query = resolve_query(config, [AttentionKind.CROSS], [layer], heads, Reduction.MEAN_HEADS)
    return Aligner(query, shift)


def detachment_query(config: ModelConfig) -> AttentionQuery:
    return resolve_query(config, [AttentionKind.CROSS], [-1], None, Reduction.MEAN_HEADS)


def default_shift(config: ModelConfig, layer: int) -> int:
    """Returns the shift of a layer: 0 for a layer that was trained to align, 1 for any other."""
    if config.alignment_layer is None:
        return 1
    return int(layer % config.decoder_layers != config.alignment_layer)


@refusing()
def trace_query(
    config: InspectedConfig, request: StepsRequest, token: int, lengths: tuple[int, int]
) -> TraceQuery:
    """Returns the query of a request about a token; `lengths` count source and target tokens."""
    kind, has_states = AttentionKind(request.kind), "block" in request.include
    query = TraceQuery(kind, request.layer, request.head, token, has_states)
    return resolve_trace(config, query, *lengths)


def check_size(
    query: AttentionQuery, lengths: Sequence[tuple[int, int]], top_k: int | None, limit: int
) -> None:
    """Refuses a request for too many attention values, before any value is computed.

    Args:
        lengths: Numbers of source and target tokens of each sentence.
        top_k: Number of values to return for each row; None for all values.
        limit: Largest number of values in a response.
    """
    shapes = [query.shape(kind, *each) for kind in query.kinds for each in lengths]
    returned = sum(prod((*shape[:3], min(shape[3], top_k or shape[3]))) for shape in shapes)
    for count, most in (returned, limit), (sum(map(prod, shapes)), COMPUTED_PER_RETURNED * limit):
        if count > most:
            raise RequestTooLargeError(
                f"Invalid request: {count} attention values exceed the limit of {most}: ask for "
                "fewer layers or heads, reduce over heads, or raise REGARD_MAX_ATTENTION_VALUES. "
                "top_k lowers only the number of returned values; "
                f"{COMPUTED_PER_RETURNED} times the setting may be computed"
            )
    if query.norm is AttentionNorm.VALUE_ZEROING:
        planes = [
            len(query.layers[kind]) * prod(plane(kind, *each))
            for kind in query.kinds
            for each in lengths
        ]
        if (count := sum(planes)) > MAX_ZEROED_EDGES:
            raise RequestTooLargeError(
                "Invalid request: value_zeroing computes a layer again for each of "
                f"{count} edges, and the limit is {MAX_ZEROED_EDGES}: ask for fewer layers, send "
                "fewer or shorter texts, or use norm alti"
            )


def start_token(config: ModelConfig, tokenizer: Tokenizer) -> str:
    """Returns the spelling of the start token; "" if the decoder starts with a zero vector."""
    return "" if config.start_id is None else tokenizer.pieces([config.start_id])[0]
