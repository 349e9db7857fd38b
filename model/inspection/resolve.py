"""Resolves the numbers of a caller's query against the config of a model.

Layer, head and token numbers may be negative; a list of layers or heads may be omitted. If the
model or the sequence does not have a named part, all functions raise AttentionQueryError. They also
raise it if a list is empty or names a part twice. The module does not import torch.
"""

from collections.abc import Sequence as SequenceOf

from model.embedding_config import TextEncoderConfig
from model.errors import AttentionQueryError
from model.inspection.query import (
    AttentionKind,
    AttentionNorm,
    AttentionQuery,
    InspectedConfig,
    Reduction,
    TraceQuery,
    attention_layers,
    listed,
    plane,
)


def resolve_query(
    config: InspectedConfig,
    kinds: SequenceOf[AttentionKind],
    layers: SequenceOf[int] | None = None,
    heads: SequenceOf[int] | None = None,
    reduce: Reduction = Reduction.NONE,
    norm: AttentionNorm = AttentionNorm.WEIGHTS,
) -> AttentionQuery:
    """Returns the query for the layers and heads that a caller names; None means all.

    The numbers of layers are resolved for each kind. Rollout uses all layers up to the highest.
    """
    if not kinds or len(set(kinds)) < len(kinds):
        kinds_of_model = tuple(attention_layers(config))
        raise AttentionQueryError(
            f"kinds are {listed(kinds)}: name one or more of {listed(kinds_of_model)}, each once"
        )
    found_layers = {kind: _resolve_layers(config, kind, layers) for kind in kinds}
    found_heads = resolve_numbers(heads, config.num_heads, "head", "a layer")
    if norm.merges_heads:
        _check_contributions(config, found_heads, reduce, norm)
    if reduce is Reduction.ROLLOUT:
        _check_rollout(config, kinds, found_heads, norm)
        found_layers = {k: tuple(range(max(numbers) + 1)) for k, numbers in found_layers.items()}
    return AttentionQuery(found_layers, found_heads, reduce, norm)


def _check_contributions(
    config: InspectedConfig, heads: tuple[int, ...], reduce: Reduction, norm: AttentionNorm
) -> None:
    if reduce in (Reduction.NONE, Reduction.MAX_HEADS):
        raise AttentionQueryError(
            f"{norm} gives one value for all heads of a layer together, so reduce {reduce} is not "
            "possible: ask for mean_heads, mean_layers_heads or rollout"
        )
    if len(heads) < config.num_heads:
        raise AttentionQueryError(
            f"{norm} gives one value for all heads of a layer together, not for heads "
            f"{listed(heads)}: ask for all heads"
        )


def _check_rollout(
    config: InspectedConfig,
    kinds: SequenceOf[AttentionKind],
    heads: tuple[int, ...],
    norm: AttentionNorm,
) -> None:
    if AttentionKind.CROSS in kinds:
        raise AttentionQueryError(
            "rollout needs attention within one sequence, and cross has two sequences: ask for "
            "encoder or decoder, or reduce cross by mean_layers_heads"
        )
    if norm is AttentionNorm.VALUE_NORMS:
        raise AttentionQueryError(
            f"rollout is computed from rows that sum to 1, not from {norm}: ask for norm weights, "
            "alti or value_zeroing"
        )
    if len(heads) < config.num_heads:
        raise AttentionQueryError(
            f"rollout uses the mean of all heads, not of heads {listed(heads)}: ask for all heads"
        )


def resolve_trace(
    config: InspectedConfig, trace: TraceQuery, source_tokens: int, target_tokens: int
) -> TraceQuery:
    """Returns a caller's trace query, whose numbers may be negative, with numbers from 0."""
    (layer,) = _resolve_layers(config, trace.kind, [trace.layer])
    (head,) = resolve_numbers([trace.head], config.num_heads, "head", "a layer")
    rows, _ = plane(trace.kind, source_tokens, target_tokens)
    query = _resolve_token(trace.kind, trace.query, rows, trace.kind is AttentionKind.ENCODER)
    return TraceQuery(trace.kind, layer, head, query)


def resolve_place(
    config: InspectedConfig,
    kind: AttentionKind,
    layers: SequenceOf[int] | None,
    heads: SequenceOf[int] | None,
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Returns numbers of layers and of heads, from 0; an argument of None selects all of them."""
    found = _resolve_layers(config, kind, layers)
    return found, resolve_numbers(heads, config.num_heads, "head", "a layer")


def resolve_edge(
    kind: AttentionKind, edge: tuple[int, int], lengths: tuple[int, int]
) -> tuple[int, int]:
    """Returns the positions of the attending and the attended token of an edge, from 0.

    `lengths` are the numbers of source and target tokens.
    """
    rows, columns = plane(kind, *lengths)
    query = _resolve_token(kind, edge[0], rows, is_source=kind is AttentionKind.ENCODER)
    return query, _resolve_token(
        kind, edge[1], columns, is_source=kind is not AttentionKind.DECODER
    )


def _resolve_token(kind: AttentionKind, number: int, size: int, is_source: bool) -> int:
    sequence = "the source" if is_source else "the target"
    if not size:
        raise AttentionQueryError(f"{sequence} has no tokens: {kind} attention needs at least one")
    (token,) = resolve_numbers([number], size, "token", sequence)
    return token


def _resolve_layers(
    config: InspectedConfig, kind: AttentionKind, numbers: SequenceOf[int] | None
) -> tuple[int, ...]:
    size = attention_layers(config).get(kind)
    if size is None and isinstance(config, TextEncoderConfig):
        raise AttentionQueryError(f"this model has only an encoder: ask for encoder, not {kind}")
    if size is None:
        raise AttentionQueryError(
            "this model's decoder has an SSRU in place of self-attention: ask for encoder or cross"
        )
    owner = "the encoder" if kind is AttentionKind.ENCODER else "the decoder"
    return resolve_numbers(numbers, size, "layer", owner)


def resolve_numbers(
    numbers: SequenceOf[int] | None, size: int, noun: str, owner: str
) -> tuple[int, ...]:
    """Returns the given numbers, counted from 0.

    A negative number in `numbers` counts from the end. If `numbers` is None, all numbers from 0 to
    size - 1 are returned. Error messages contain `noun` and `owner`.
    """
    if numbers is None:
        return tuple(range(size))
    there = f"{owner} has {noun}s 0 to {size - 1}, or -{size} to -1 from the end"
    if not numbers:
        raise AttentionQueryError(
            f"no {noun} is named: {there}. Name at least one, or omit the {noun}s to select all."
        )
    wrong = [number for number in numbers if not -size <= number < size]
    if wrong:
        raise AttentionQueryError(f"{noun} {listed(wrong)} does not exist: {there}")
    resolved = tuple(number % size for number in numbers)
    if len(set(resolved)) < len(resolved):
        raise AttentionQueryError(
            f"{noun}s {listed(numbers)} name the same {noun} twice: {there}; -1 names {size - 1}"
        )
    return resolved
