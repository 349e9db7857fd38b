"""Resolves the layers, heads and tokens of a request against the config of a model."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Literal, TypeVar

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
)
from model.inspection.resolve import resolve_query, resolve_trace
from model.tokenization.tokenizer import Tokenizer
from service.errors import InvalidRequestError, RequestTooLargeError
from service.tasks.attention.requests import InspectionRequest, TraceRequest

T = TypeVar("T")

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
    """The cross-attention that aligns words.

    Attributes:
        query: Query for one layer, and for one head or the mean over all heads.
        shift: 0 if the attention of a row belongs to the predicted token, 1 if it belongs to the
            decoder's input token (see `service.tasks.alignment.alignment.align`).
    """

    query: AttentionQuery
    shift: int


def attention_query(config: InspectedConfig, request: InspectionRequest) -> AttentionQuery:
    """Returns the query of a request, with the requested layers and heads as indices from 0.

    Raises:
        InvalidRequestError: The model has no such attention, or the kinds differ in their number
            of layers and the request needs equal numbers.
    """
    kinds = [AttentionKind(kind) for kind in request.kinds]
    query = resolved(
        lambda: resolve_query(
            config,
            kinds,
            None if request.layers == "all" else request.layers,
            None if request.heads == "all" else request.heads,
            Reduction(request.reduce),
            AttentionNorm(request.norm),
        )
    )
    if request.needs_equal_layers:
        check_equal_layers({str(kind): len(layers) for kind, layers in query.layers.items()})
    return query


def check_equal_layers(num_layers: Mapping[str, int]) -> None:
    """Refuses kinds with different numbers of layers: bertviz cannot show such kinds together.

    Args:
        num_layers: Number of layers of each kind.

    Raises:
        InvalidRequestError: The numbers differ.
    """
    if len(set(num_layers.values())) > 1:
        counts = ", ".join(f"{count} of {kind}" for kind, count in num_layers.items())
        raise InvalidRequestError(
            f"Invalid request: bertviz shows equally many layers of every kind, not {counts}; ask "
            f"for one kind, or for layers that all kinds have, 0 to {min(num_layers.values()) - 1}"
        )


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

    Args:
        config: Config of the model.
        layer: Number of a decoder layer; None for the default.
        head: Number of a head, or `mean`; None for the default.
        shift: 0 or 1 (see `Aligner`); None for the default of the layer.

    Raises:
        InvalidRequestError: The model has no such layer or head.
    """
    if layer is None:
        layer = config.aligning_layer
    if head is None:
        head = "mean" if config.aligning_head is None else config.aligning_head
    if shift is None:
        shift = default_shift(config, layer)
    heads = None if head == "mean" else [head]
    query = resolved(
        lambda: resolve_query(config, [AttentionKind.CROSS], [layer], heads, Reduction.MEAN_HEADS)
    )
    return Aligner(query, shift)


def detachment_query(config: ModelConfig) -> AttentionQuery:
    """Returns the query for the cross-attention of the detachment score.

    It is the mean over the heads of the last layer, as in the paper that
    `service.tasks.alignment.detachment` names.
    """
    return resolve_query(config, [AttentionKind.CROSS], [-1], None, Reduction.MEAN_HEADS)


def default_shift(config: ModelConfig, layer: int) -> int:
    """Returns the shift of a layer: 0 for a layer that was trained to align, and 1 for any other.

    In a layer that was trained to align, the attention of a row belongs to the predicted token. In
    any other layer it belongs to the decoder's input token, one place earlier.
    """
    if config.alignment_layer is None:
        return 1
    return int(layer % config.decoder_layers != config.alignment_layer)


def trace_query(
    config: InspectedConfig, request: TraceRequest, source_tokens: int, target_tokens: int
) -> TraceQuery:
    """Returns the query of a request, with its layer, head and token counted from 0.

    Args:
        config: Config of the model.
        request: Request, with numbers that may be negative.
        source_tokens: Number of source tokens.
        target_tokens: Number of target tokens.

    Raises:
        InvalidRequestError: The model has no such layer or head, or the text has no such token.
    """
    query = TraceQuery(AttentionKind(request.kind), request.layer, request.head, request.query)
    return resolved(lambda: resolve_trace(config, query, source_tokens, target_tokens))


def resolved(resolve: Callable[[], T]) -> T:
    """Calls a function of the model package, and converts its error to an error for the client.

    Raises:
        InvalidRequestError: The function refuses the query.
    """
    try:
        return resolve()
    except AttentionQueryError as error:
        raise InvalidRequestError(f"Invalid request: {error}") from None


def check_size(
    query: AttentionQuery,
    lengths: Sequence[tuple[int, int]],
    top_k: int | None,
    limit: int,
) -> None:
    """Refuses a request for too many attention values, before any value is computed.

    Args:
        query: The query, which is the same for all sentences.
        lengths: Numbers of source and target tokens of each sentence.
        top_k: Number of values to return for each row; None for all values.
        limit: Largest number of values in a response. COMPUTED_PER_RETURNED times as many may be
            computed.

    Raises:
        RequestTooLargeError: More values would be returned or computed than these limits allow, or
            value zeroing would have more than MAX_ZEROED_EDGES edges.
    """
    shapes = [query.shape(kind, *each) for kind in query.kinds for each in lengths]
    returned = sum(prod((*shape[:3], min(shape[3], top_k or shape[3]))) for shape in shapes)
    check_values(returned, limit)
    check_values(sum(map(prod, shapes)), COMPUTED_PER_RETURNED * limit)
    if query.norm is AttentionNorm.VALUE_ZEROING:
        planes = [
            (len(query.layers[kind]), *plane(kind, *each))
            for kind in query.kinds
            for each in lengths
        ]
        check_zeroing(sum(map(prod, planes)))


def check_zeroing(count: int) -> None:
    """Refuses value zeroing of too many edges.

    Raises:
        RequestTooLargeError: The count exceeds MAX_ZEROED_EDGES.
    """
    if count > MAX_ZEROED_EDGES:
        raise RequestTooLargeError(
            f"Invalid request: value_zeroing computes a layer again for each of {count} edges, and "
            f"the limit is {MAX_ZEROED_EDGES}: ask for fewer layers, send fewer or shorter texts, "
            "or use norm alti"
        )


def check_values(count: int, limit: int) -> None:
    """Refuses more attention values than the limit.

    Raises:
        RequestTooLargeError: The count exceeds the limit.
    """
    if count > limit:
        raise RequestTooLargeError(
            f"Invalid request: {count} attention values exceed the limit of {limit}: ask for fewer "
            "layers or heads, reduce over heads, or raise REGARD_MAX_ATTENTION_VALUES. top_k "
            "lowers only the number of returned values; "
            f"{COMPUTED_PER_RETURNED} times the setting may be computed"
        )


def start_token(config: ModelConfig, tokenizer: Tokenizer) -> str:
    """Returns the spelling of the start token; "" if the decoder starts with a zero vector."""
    return "" if config.start_id is None else tokenizer.pieces([config.start_id])[0]
