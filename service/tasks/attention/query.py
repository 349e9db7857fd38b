"""What a request asks of a model's attention, resolved against what the model has."""

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
    resolve_query,
    resolve_trace,
)
from model.tokenization.tokenizer import Tokenizer
from service.errors import InvalidRequestError
from service.tasks.attention.matrices import check_values
from service.tasks.attention.requests import InspectionRequest, TraceRequest

T = TypeVar("T")

COMPUTED_PER_SHOWN = 8
"""With `top_k` the worker computes whole rows all the same: so many times the limit at most."""


@dataclass(frozen=True, slots=True)
class Aligner:
    """Which cross-attention aligns words.

    Attributes:
        query: One layer, and one head or the mean of all.
        shift: As of `align`.
    """

    query: AttentionQuery
    shift: int


def attention_query(config: InspectedConfig, request: InspectionRequest) -> AttentionQuery:
    """The layers and heads that a request means.

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
    """Refuses kinds with different numbers of layers, which bertviz cannot show.

    Args:
        num_layers: Number of layers of each kind.

    Raises:
        InvalidRequestError: The numbers differ.
    """
    if len(set(num_layers.values())) > 1:
        counts = ", ".join(f"{count} of {kind}" for kind, count in num_layers.items())
        raise InvalidRequestError(
            f"Invalid request: bertviz shows equally many layers of every kind, not {counts}; "
            f"ask for one kind, or name layers that all have, 0 to {min(num_layers.values()) - 1}"
        )


def aligner_of(
    config: ModelConfig,
    layer: int | None = None,
    head: int | Literal["mean"] | None = None,
    shift: int | None = None,
) -> Aligner:
    """The attention that aligns words, by default the one that the model was trained to align with.

    A model that was not has, as a rule, its best in the first layer, where a token attends for
    what is put in: mean of heads, rows moved by one (Opus-MT issue 81).

    Raises:
        InvalidRequestError: The model has no such layer or head.
    """
    if layer is None:
        layer = config.alignment_layer or 0
    if head is None:
        head = config.alignment_head if config.alignment_layer is not None else "mean"
    if shift is None:
        shift = default_shift(config, layer)
    heads = None if head == "mean" else [head]
    query = resolved(
        lambda: resolve_query(config, [AttentionKind.CROSS], [layer], heads, Reduction.MEAN_HEADS)
    )
    return Aligner(query, shift)


def default_shift(config: ModelConfig, layer: int) -> int:
    """0 in a layer trained to align, which attends for what it predicts; 1 in any other."""
    if config.alignment_layer is None:
        return 1
    return int(layer % config.decoder_layers != config.alignment_layer)


def steps_query(
    config: InspectedConfig, request: TraceRequest, source_tokens: int, target_tokens: int
) -> TraceQuery:
    """The head and the token that a request means.

    Raises:
        InvalidRequestError: There is no such one.
    """
    wanted = TraceQuery(AttentionKind(request.kind), request.layer, request.head, request.query)
    return resolved(lambda: resolve_trace(config, wanted, source_tokens, target_tokens))


def resolved(resolve: Callable[[], T]) -> T:
    """What a function of the model package finds, with its refusal as the client's error."""
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
    """Refuses more values than are allowed, before any is computed.

    Args:
        query: What is asked of every sentence.
        lengths: Source and target tokens of each.
        top_k: How many values of a row are shown.
        limit: Values in the reply.

    Raises:
        RequestTooLargeError: There would be more.
    """
    shapes = [query.shape(kind, *each) for kind in query.kinds for each in lengths]
    shown = sum(prod((*shape[:3], min(shape[3], top_k or shape[3]))) for shape in shapes)
    check_values(shown, limit)
    check_values(sum(map(prod, shapes)), COMPUTED_PER_SHOWN * limit)


def start_token(config: ModelConfig, tokenizer: Tokenizer) -> str:
    """What a decoder starts from, for people: a token's spelling, or "" for the zero vector."""
    return "" if config.start_id is None else tokenizer.pieces([config.start_id])[0]
