"""Which attention is asked for, and what comes out. Without torch, for those who only ask.

A caller's numbers, which may be negative or left out, are resolved against the model's config
first; from then on a query names layers and heads that are there, counted from 0.
"""

from collections.abc import Mapping
from collections.abc import Sequence as SequenceOf
from dataclasses import dataclass
from enum import StrEnum
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from model.config import DecoderKind, ModelConfig
from model.embedding_config import TextEncoderConfig
from model.errors import AttentionQueryError
from model.tokenization.token_ids import check_ids

InspectedConfig = ModelConfig | TextEncoderConfig
"""Of a model whose attention can be shown."""

SHOWN_VALUES = 8
SHOWN_CHARS = 20
"""How much of a caller's numbers a message repeats."""


class AttentionKind(StrEnum):
    """Which tokens attend to which.

    Rows are the tokens that attend and columns those attended to: source to source, target to
    target up to itself, target to source. Row t of a target is that of the decoder's input t,
    from which it predicts token t.
    """

    ENCODER = "encoder"
    DECODER = "decoder"
    CROSS = "cross"


class Reduction(StrEnum):
    """What becomes of the layers and heads asked for; a dimension that goes has size 1."""

    NONE = "none"
    MEAN_HEADS = "mean_heads"
    MAX_HEADS = "max_heads"
    MEAN_LAYERS_HEADS = "mean_layers_heads"
    ROLLOUT = "rollout"


class AttentionNorm(StrEnum):
    """Weights as they are, or times the norm of what they let through.

    Source: Kobayashi et al. 2020, "Attention is Not Only a Weight", section 3: the norm of
    weight · (x W_V + b_V) W_O.
    """

    WEIGHTS = "weights"
    VALUE_NORMS = "value_norms"


AttentionMaps = dict[AttentionKind, NDArray[np.float32]]
"""For each kind asked for, (layers, heads, rows, columns)."""


@dataclass(frozen=True, slots=True)
class AttentionQuery:
    """Attention of some layers and heads, between all tokens.

    Attributes:
        layers: For each kind asked for, numbers of layers from 0, in the order of the answer.
        heads: Numbers of heads from 0, in the order of the answer.
        reduce: What becomes of them.
        norm: Of what kind the values are.
    """

    layers: Mapping[AttentionKind, tuple[int, ...]]
    heads: tuple[int, ...]
    reduce: Reduction = Reduction.NONE
    norm: AttentionNorm = AttentionNorm.WEIGHTS

    @property
    def kinds(self) -> tuple[AttentionKind, ...]:
        """Those asked for."""
        return tuple(self.layers)

    def shape(
        self, kind: AttentionKind, source_tokens: int, target_tokens: int
    ) -> tuple[int, int, int, int]:
        """(layers, heads, rows, columns) of the answer."""
        merges_layers = self.reduce in (Reduction.MEAN_LAYERS_HEADS, Reduction.ROLLOUT)
        layers = 1 if merges_layers else len(self.layers[kind])
        heads = len(self.heads) if self.reduce is Reduction.NONE else 1
        return layers, heads, *plane(kind, source_tokens, target_tokens)


@dataclass(frozen=True, slots=True)
class StepsQuery:
    """The whole computation of one token's attention in one head.

    Attributes:
        kind: Which attention.
        layer: From 0.
        head: From 0.
        query: The place of the token that attends, from 0.
    """

    kind: AttentionKind
    layer: int
    head: int
    query: int

    @property
    def kinds(self) -> tuple[AttentionKind, ...]:
        """The one asked for."""
        return (self.kind,)


@dataclass(frozen=True, slots=True)
class AttentionJob:
    """A sentence, its translation, and what is asked about them.

    Attributes:
        source: Ids, EOS included; or those of a text to embed, with its special tokens.
        target: Ids that the decoder is made to predict, EOS included; may be empty where only
            the encoder is asked about.
        queries: What is asked, in one pass.
    """

    source: list[int]
    target: list[int]
    queries: tuple[AttentionQuery | StepsQuery, ...]

    @property
    def kinds(self) -> tuple[AttentionKind, ...]:
        """Those that any query asks for."""
        return tuple(dict.fromkeys(kind for query in self.queries for kind in query.kinds))

    @property
    def needs_target(self) -> bool:
        """Whether the decoder is asked about."""
        return any(kind is not AttentionKind.ENCODER for kind in self.kinds)


def attention_layers(config: InspectedConfig) -> dict[AttentionKind, int]:
    """The kinds of attention that a model has, and in how many layers; an SSRU is none."""
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
    """Rows and columns of one head's attention."""
    rows = source_tokens if kind is AttentionKind.ENCODER else target_tokens
    columns = target_tokens if kind is AttentionKind.DECODER else source_tokens
    return rows, columns


def resolve_query(
    config: InspectedConfig,
    kinds: SequenceOf[AttentionKind],
    layers: SequenceOf[int] | None = None,
    heads: SequenceOf[int] | None = None,
    reduce: Reduction = Reduction.NONE,
    norm: AttentionNorm = AttentionNorm.WEIGHTS,
) -> AttentionQuery:
    """The query that a caller means.

    Args:
        config: The model's.
        kinds: At least one, none twice.
        layers: Numbers, negative from the end, looked up for each kind; None for all. With
            rollout, which starts at the first layer, all up to the last one named go in.
        heads: Numbers, negative from the end; None for all.
        reduce: What is to become of layers and heads.
        norm: Of what kind the values are to be.

    Raises:
        AttentionQueryError: The model has no such attention, or these do not go together.
    """
    if not kinds or len(set(kinds)) < len(kinds):
        raise AttentionQueryError(
            f"kinds are {listed(kinds)}: name at least one of {listed(AttentionKind)}, none twice"
        )
    found_layers = {kind: _layers(config, kind, layers) for kind in kinds}
    found_heads = _numbers(heads, config.num_heads, "head", "a layer")
    if reduce is Reduction.ROLLOUT:
        _check_rollout(config, kinds, found_heads, norm)
        found_layers = {k: tuple(range(max(numbers) + 1)) for k, numbers in found_layers.items()}
    return AttentionQuery(found_layers, found_heads, reduce, norm)


def _check_rollout(
    config: InspectedConfig,
    kinds: SequenceOf[AttentionKind],
    heads: tuple[int, ...],
    norm: AttentionNorm,
) -> None:
    if AttentionKind.CROSS in kinds:
        raise AttentionQueryError(
            "rollout follows one sequence through its layers, which cross does not: ask for "
            "encoder or decoder, or reduce cross by mean_layers_heads"
        )
    if norm is not AttentionNorm.WEIGHTS:
        raise AttentionQueryError(f"rollout is of weights, not of {norm}: ask for norm weights")
    if len(heads) < config.num_heads:
        raise AttentionQueryError(
            f"rollout is over the mean of all heads, not of {listed(heads)}: ask for all heads"
        )


def resolve_steps(
    config: InspectedConfig, steps: StepsQuery, source_tokens: int, target_tokens: int
) -> StepsQuery:
    """The same with every number counted from 0, where it may be negative from the end.

    Args:
        config: The model's.
        steps: As a caller names it.
        source_tokens: EOS included.
        target_tokens: EOS included.

    Raises:
        AttentionQueryError: The model has no such attention, or the sequence no such token.
    """
    (layer,) = _layers(config, steps.kind, [steps.layer])
    (head,) = _numbers([steps.head], config.num_heads, "head", "a layer")
    rows, _ = plane(steps.kind, source_tokens, target_tokens)
    sequence = "the source" if steps.kind is AttentionKind.ENCODER else "the target"
    if not rows:
        raise AttentionQueryError(f"{sequence} has no tokens: {steps.kind} attention needs some")
    (query,) = _numbers([steps.query], rows, "token", sequence)
    return StepsQuery(steps.kind, layer, head, query)


def _layers(
    config: InspectedConfig, kind: AttentionKind, numbers: SequenceOf[int] | None
) -> tuple[int, ...]:
    size = attention_layers(config).get(kind)
    if size is None and isinstance(config, TextEncoderConfig):
        raise AttentionQueryError(f"this model has an encoder alone: ask for encoder, not {kind}")
    if size is None:
        raise AttentionQueryError(
            "this model's decoder has an SSRU in place of self-attention: ask for encoder or cross"
        )
    owner = "the encoder" if kind is AttentionKind.ENCODER else "the decoder"
    return _numbers(numbers, size, "layer", owner)


def _numbers(numbers: SequenceOf[int] | None, size: int, noun: str, owner: str) -> tuple[int, ...]:
    """Numbers from 0 to size - 1, for those that may be negative or left out."""
    if numbers is None:
        return tuple(range(size))
    there = f"{owner} has {noun}s 0 to {size - 1}, or -{size} to -1 from the end"
    if not numbers:
        raise AttentionQueryError(f"no {noun} is named: {there}. Name at least one, or all.")
    wrong = [number for number in numbers if not -size <= number < size]
    if wrong:
        raise AttentionQueryError(f"{noun} {listed(wrong)} is not there: {there}")
    resolved = tuple(number % size for number in numbers)
    if len(set(resolved)) < len(resolved):
        raise AttentionQueryError(
            f"{noun}s {listed(numbers)} name one twice: {there}, so that -1 is {size - 1}"
        )
    return resolved


def listed(values: SequenceOf[object] | type[StrEnum]) -> str:
    """For a message, which a caller's list must not make long."""
    shown = [str(value)[:SHOWN_CHARS] for value in islice(values, SHOWN_VALUES)]
    more = len(values) - len(shown)
    return ", ".join(shown) + f" and {more} more" * (more > 0) or "none"


def check_job(config: ModelConfig, job: AttentionJob) -> None:
    """Refuses what cannot be computed; the query is taken to be resolved.

    Raises:
        EmptySourceError: No tokens.
        UnknownTokenError: An id outside the vocabulary.
        AttentionQueryError: The decoder is asked about and there is no target.
    """
    check_ids("source", job.source, config.source_vocab_size)
    if job.needs_target and not job.target:
        raise AttentionQueryError(
            f"{listed(job.kinds)} attention needs a target, which has no tokens here"
        )
    if job.target:
        check_ids("target", job.target, config.target_vocab_size)
