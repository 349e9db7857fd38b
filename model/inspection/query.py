"""Defines attention queries, and resolves a caller's query against the config of a model.

A query names existing layers, heads and tokens, counted from 0. A caller's numbers may be negative;
a list of layers or heads may be omitted. The `resolve` functions raise AttentionQueryError if a
named part does not exist, or if a list is empty or names a part twice. The module does not import
torch, so that processes without a model stay small.
"""

from collections.abc import Mapping
from collections.abc import Sequence as SequenceOf
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import islice
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from model.config import DecoderKind, ModelConfig, TextEncoderConfig
from model.errors import AttentionQueryError
from model.sequence import check_ids

InspectedConfig = ModelConfig | TextEncoderConfig
"""The config of a model whose attention can be queried."""

SHOWN_VALUES, SHOWN_CHARS = 8, 20
"""Largest numbers of values, and of characters of each value, that an error message repeats."""


class AttentionKind(StrEnum):
    """The attending and the attended tokens, which are the rows and the columns of a map.

    `encoder` is source to source, `cross` is target to source, and `decoder` is target to target.
    Row t of a target shows the step in which the decoder reads token t - 1 and predicts token t.
    """

    ENCODER = "encoder"
    DECODER = "decoder"
    CROSS = "cross"


class Reduction(StrEnum):
    """The reduction over layers and heads; a reduced dimension has size 1."""

    NONE = "none"
    MEAN_HEADS = "mean_heads"
    MAX_HEADS = "max_heads"
    MEAN_LAYERS_HEADS = "mean_layers_heads"
    ROLLOUT = "rollout"


class AttentionNorm(StrEnum):
    """The values of a map.

    `value_norms` are the norms of weight · (x W_V + b_V) W_O, where x is the vector of the attended
    token (Kobayashi et al. 2020, "Attention is Not Only a Weight", section 3). `alti` and
    `value_zeroing` are contributions (`model.inspection.captures.maps`).
    """

    WEIGHTS = "weights"
    VALUE_NORMS = "value_norms"
    ALTI = "alti"
    VALUE_ZEROING = "value_zeroing"

    @property
    def merges_heads(self) -> bool:
        return self in (AttentionNorm.ALTI, AttentionNorm.VALUE_ZEROING)


AttentionMaps = dict[AttentionKind, NDArray[np.float32]]
"""The map (layers, heads, rows, columns) of each kind in the query."""


@dataclass(frozen=True, slots=True)
class AttentionQuery:
    """A query for the attention of some layers of each kind and some heads, between all tokens."""

    layers: Mapping[AttentionKind, tuple[int, ...]]
    heads: tuple[int, ...]
    reduce: Reduction = Reduction.NONE
    norm: AttentionNorm = AttentionNorm.WEIGHTS

    @property
    def kinds(self) -> tuple[AttentionKind, ...]:
        return tuple(self.layers)

    def shape(
        self, kind: AttentionKind, source_tokens: int, target_tokens: int
    ) -> tuple[int, int, int, int]:
        merges_layers = self.reduce in (Reduction.MEAN_LAYERS_HEADS, Reduction.ROLLOUT)
        layers = 1 if merges_layers else len(self.layers[kind])
        heads = len(self.heads) if self.reduce is Reduction.NONE else 1
        return layers, heads, *plane(kind, source_tokens, target_tokens)


@dataclass(frozen=True, slots=True)
class TraceQuery:
    """A query for the whole computation of one token's attention in one head."""

    kind: AttentionKind
    layer: int
    head: int
    query: int  # position of the attending token
    has_states: bool = False  # whether the result has the token's vectors around the sublayer

    @property
    def kinds(self) -> tuple[AttentionKind, ...]:
        return (self.kind,)


@dataclass(frozen=True, slots=True)
class ProbabilityQuery:
    """A query for the probabilities from which the decoder chooses each target token."""

    top: int  # number of likeliest tokens of each position in the result
    named: tuple[int, ...] = ()  # ids whose probability and rank are in the result
    first_id: int | None = None  # the forced first token of the target
    kinds: ClassVar[tuple[AttentionKind, ...]] = ()


@dataclass(frozen=True, slots=True)
class ScoreQuery:
    """A query for the score of a pair by a cross-encoder, before the sigmoid."""

    kinds: ClassVar[tuple[AttentionKind, ...]] = ()


Query = AttentionQuery | TraceQuery | ProbabilityQuery | ScoreQuery


@dataclass(frozen=True, slots=True)
class HeadKnockout:
    """Heads whose output is 0 in each of some layers.

    If `is_uniform`, the heads stay, but attend to all tokens equally.

    Source: Michel et al. 2019, "Are Sixteen Heads Really Better than One?", section 2.3.
    """

    kind: AttentionKind
    layers: tuple[int, ...]
    heads: tuple[int, ...]
    is_uniform: bool = False


@dataclass(frozen=True, slots=True)
class EdgeKnockout:
    """An edge that is switched off: the token at `query` does not attend to the token at `key`.

    The weights of the other tokens are scaled up, so that they sum to 1. A token whose edges
    are all switched off gets the output 0.

    Source: Geva et al. 2023, "Dissecting Recall of Factual Associations in Auto-Regressive
    Language Models", section 4.
    """

    kind: AttentionKind
    query: int
    key: int
    layers: tuple[int, ...]
    heads: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class SiteKnockout:
    """The part of a knock-out in one attention sublayer; no token attends to `keys`."""

    heads: tuple[int, ...] = ()
    keys: tuple[int, ...] = ()
    edges: tuple[EdgeKnockout, ...] = ()
    uniform: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Knockout:
    """The parts of a model that are switched off for one sentence.

    Neither the encoder nor the decoder attends to the source tokens at the positions `source`.
    """

    heads: tuple[HeadKnockout, ...] = ()
    edges: tuple[EdgeKnockout, ...] = ()
    source: tuple[int, ...] = ()

    def at(self, kind: AttentionKind, layer: int) -> SiteKnockout | None:
        here = [each for each in self.heads if each.kind is kind and layer in each.layers]
        heads = tuple(head for each in here for head in each.heads if not each.is_uniform)
        uniform = tuple(head for each in here for head in each.heads if each.is_uniform)
        keys = () if kind is AttentionKind.DECODER else self.source
        edges = tuple(each for each in self.edges if each.kind is kind and layer in each.layers)
        off = SiteKnockout(heads, keys, edges, uniform)
        return None if off == SiteKnockout() else off


@dataclass(frozen=True, slots=True)
class AttentionJob:
    """A sentence, its translation, and the queries about them, which one forward pass answers."""

    source: list[int]  # ids, EOS included; or of a text to embed, special tokens included
    target: list[int]  # ids, EOS included; may be empty if all queries are about the encoder
    queries: tuple[Query, ...]
    # Every job with a knock-out, also an empty one, runs in PyTorch, so that its results can be
    # compared. The output of other jobs may come from native code.
    knockout: Knockout | None = None

    @property
    def kinds(self) -> tuple[AttentionKind, ...]:
        return tuple(dict.fromkeys(kind for query in self.queries for kind in query.kinds))

    @property
    def needs_target(self) -> bool:
        return self.needs_output or any(kind is not AttentionKind.ENCODER for kind in self.kinds)

    @property
    def needs_score(self) -> bool:
        return ScoreQuery() in self.queries

    @property
    def needs_output(self) -> bool:
        return any(isinstance(query, ProbabilityQuery) for query in self.queries)


def attention_layers(config: InspectedConfig) -> dict[AttentionKind, int]:
    """Returns the number of layers of each kind of attention that a model has.

    A decoder with an SSRU has no self-attention, so the kind `decoder` is left out.
    """
    if isinstance(config, TextEncoderConfig):
        return {AttentionKind.ENCODER: config.layers}
    layers = {
        AttentionKind.ENCODER: config.encoder_layers,
        AttentionKind.DECODER: config.decoder_layers,
        AttentionKind.CROSS: config.decoder_layers,
    }
    if config.decoder is DecoderKind.SSRU:
        del layers[AttentionKind.DECODER]
    return layers


def plane(kind: AttentionKind, source_tokens: int, target_tokens: int) -> tuple[int, int]:
    rows = source_tokens if kind is AttentionKind.ENCODER else target_tokens
    columns = target_tokens if kind is AttentionKind.DECODER else source_tokens
    return rows, columns


def listed(values: SequenceOf[object] | type[StrEnum]) -> str:
    """Returns the values as text for an error message; long lists and values are shortened."""
    shown = [str(value)[:SHOWN_CHARS] for value in islice(values, SHOWN_VALUES)]
    if not shown:
        return "none"
    more = len(values) - len(shown)
    return ", ".join(shown) + (f" and {more} more" if more else "")


def check_job(config: ModelConfig, job: AttentionJob) -> None:
    """Refuses a job, with resolved queries, that cannot be computed."""
    check_ids("source", job.source, config.source_vocab_size)
    if job.needs_target and not job.target:
        raise AttentionQueryError(
            "attention of a decoder and probabilities need a target, but the target has no tokens"
        )
    if job.target:
        check_ids("target", job.target, config.target_vocab_size)
    for query in job.queries:
        if isinstance(query, ProbabilityQuery) and query.named:
            check_ids("named token", query.named, config.target_vocab_size)


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
    if reduce is Reduction.ROLLOUT:
        found_layers = {k: tuple(range(max(numbers) + 1)) for k, numbers in found_layers.items()}
    query = AttentionQuery(found_layers, found_heads, reduce, norm)
    _check_reduction(query, config.num_heads)
    return query


def _check_reduction(query: AttentionQuery, num_heads: int) -> None:
    reduce, norm, is_rollout = query.reduce, query.norm, query.reduce is Reduction.ROLLOUT
    if norm.merges_heads and reduce in (Reduction.NONE, Reduction.MAX_HEADS):
        raise AttentionQueryError(
            f"{norm} gives one value for all heads of a layer together, so reduce {reduce} is not "
            "possible: ask for mean_heads, mean_layers_heads or rollout"
        )
    if is_rollout and AttentionKind.CROSS in query.kinds:
        raise AttentionQueryError(
            "rollout needs attention within one sequence, and cross has two sequences: ask for "
            "encoder or decoder, or reduce cross by mean_layers_heads"
        )
    if is_rollout and norm is AttentionNorm.VALUE_NORMS:
        raise AttentionQueryError(
            f"rollout is computed from rows that sum to 1, not from {norm}: ask for norm weights, "
            "alti or value_zeroing"
        )
    if len(query.heads) < num_heads and (is_rollout or norm.merges_heads):
        raise AttentionQueryError(
            f"{reduce if is_rollout else norm} is computed from all heads of a layer together, not "
            f"from heads {listed(query.heads)}: ask for all heads"
        )


def resolve_trace(
    config: InspectedConfig, trace: TraceQuery, source_tokens: int, target_tokens: int
) -> TraceQuery:
    (layer,), (head,) = resolve_place(config, trace.kind, [trace.layer], [trace.head])
    query = resolve_token(trace.kind, trace.query, (source_tokens, target_tokens))
    return replace(trace, layer=layer, head=head, query=query)


def resolve_place(
    config: InspectedConfig,
    kind: AttentionKind,
    layers: SequenceOf[int] | None,
    heads: SequenceOf[int] | None,
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    found = _resolve_layers(config, kind, layers)
    return found, resolve_numbers(heads, config.num_heads, "head", "a layer")


def resolve_token(
    kind: AttentionKind, number: int, lengths: tuple[int, int], is_attended: bool = False
) -> int:
    """Resolves the attending or the attended token; `lengths` count source and target tokens."""
    is_source = kind is AttentionKind.ENCODER or (kind is AttentionKind.CROSS and is_attended)
    sequence, size = ("the source", lengths[0]) if is_source else ("the target", lengths[1])
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
    """Returns numbers from 0 to size - 1; all of them for None. Messages have noun and owner."""
    if numbers is None:
        return tuple(range(size))
    there = f"{owner} has {noun}s 0 to {size - 1}, or -{size} to -1 from the end"
    if not numbers:
        raise AttentionQueryError(f"no {noun} is named: {there}. Name at least one.")
    wrong = [number for number in numbers if not -size <= number < size]
    if wrong:
        raise AttentionQueryError(f"{noun} {listed(wrong)} does not exist: {there}")
    resolved = tuple(number % size for number in numbers)
    if len(set(resolved)) < len(resolved):
        raise AttentionQueryError(
            f"{noun}s {listed(numbers)} name the same {noun} twice: {there}; -1 names {size - 1}"
        )
    return resolved
