"""What is kept of a pass for one query: maps of weights, or one token's steps."""

from collections.abc import Callable, Collection, Generator
from dataclasses import dataclass
from typing import Protocol, TypeVar, cast

import torch
from torch import Tensor, nn

from model.inspection.query import (
    AttentionJob,
    AttentionKind,
    AttentionMaps,
    AttentionNorm,
    AttentionQuery,
    Reduction,
    StepsQuery,
)
from model.inspection.steps import AttentionSteps, attention_steps
from model.layers.attention import MultiHeadAttention, attention_weights
from model.quantization.int8 import Int8Product

Result = AttentionMaps | AttentionSteps

T = TypeVar("T")
Slices = Generator[None, None, T]
"""Yields after each slice of the work, and returns what has been computed."""


@dataclass(frozen=True, slots=True)
class Place:
    """One attention of the model: its kind and its layer, from 0."""

    kind: AttentionKind
    layer: int


@dataclass(frozen=True, slots=True)
class Projected:
    """One sentence's queries, keys and values in one attention, all heads.

    Attributes:
        query: (H, T, K).
        key: (H, S, K).
        value: (H, S, K).
        bias: What is added to scores: (T, S), 0 attends and -inf does not; or (H, T, S), what each
            head adds for the distance. None where every row attends to all alike.
        module: Whose they are.
    """

    query: Tensor
    key: Tensor
    value: Tensor
    bias: Tensor | None
    module: MultiHeadAttention


class Recorder(Protocol):
    """Keeps what one query asks for while a pass goes by."""

    def layers(self, kind: AttentionKind) -> Collection[int]:
        """Which layers it wants to see."""

    def record(self, place: Place, projected: Projected) -> Slices[None]:
        """Keeps what it wants of one of them, on the device; they come from the first on."""

    def result(self) -> Result:
        """What it has kept, on the host."""


def new_recorders(job: AttentionJob, device: torch.device, slice_rows: int) -> list[Recorder]:
    """A recorder for each query of a job.

    Args:
        job: A sentence, its translation and the queries.
        device: Where to keep the answers.
        slice_rows: How many tokens' weights are computed in a slice.
    """
    lengths = len(job.source), len(job.target)
    return [_new_recorder(query, lengths, device, slice_rows) for query in job.queries]


def _new_recorder(
    query: AttentionQuery | StepsQuery,
    lengths: tuple[int, int],
    device: torch.device,
    slice_rows: int,
) -> Recorder:
    if isinstance(query, StepsQuery):
        return StepsRecorder(query)
    maps = {kind: torch.zeros(query.shape(kind, *lengths), device=device) for kind in query.kinds}
    return MapsRecorder(query, maps, slice_rows)


class MapsRecorder:
    """Computes weights explicitly, and puts them where the answer has them.

    In float32 also where the model is in bfloat16, so that a row sums to 1 as well as it can.

    Args:
        query: What is asked.
        maps: The answer's tensors (layers, heads, T, S), zeros.
        slice_rows: How many tokens' weights are computed in a slice.
    """

    def __init__(
        self, query: AttentionQuery, maps: dict[AttentionKind, Tensor], slice_rows: int
    ) -> None:
        self.query = query
        self.maps = maps
        self.slice_rows = slice_rows
        if query.reduce is Reduction.ROLLOUT:
            for answer in maps.values():
                answer[0, 0].fill_diagonal_(1.0)  # below the first layer each token is itself

    def layers(self, kind: AttentionKind) -> Collection[int]:
        """Those asked for."""
        return self.query.layers.get(kind, ())

    def record(self, place: Place, projected: Projected) -> Slices[None]:
        """Merges one layer into the answer, some rows after the other."""
        layers, is_rollout = self.query.layers[place.kind], self.query.reduce is Reduction.ROLLOUT
        answer, merge = self.maps[place.kind], MERGES[self.query.reduce]
        merged = torch.empty_like(answer) if is_rollout else answer
        heads = self._choose(projected)
        for first in range(0, answer.shape[2], self.slice_rows):
            if first:
                yield
            rows = slice(first, first + self.slice_rows)
            merge(merged[:, :, rows], heads.values(rows), layers.index(place.layer), len(layers))
        if is_rollout:
            answer[0, 0] = passed_on(merged[0, 0]) @ answer[0, 0]

    def _choose(self, projected: Projected) -> "ChosenHeads":
        numbers, norms = self.query.heads, None
        query, key = chosen(projected.query, numbers), chosen(projected.key, numbers)
        if self.query.norm is AttentionNorm.VALUE_NORMS:
            matrices = chosen(head_matrices(projected.module), numbers)
            norms = value_norms(chosen(projected.value, numbers), matrices)[:, None, :]
        bias = projected.bias
        if bias is not None and bias.dim() == 3:
            bias = chosen(bias, numbers)
        return ChosenHeads(query, key, bias, norms)

    def result(self) -> AttentionMaps:
        """For each kind (layers, heads, T, S)."""
        return {kind: values.cpu().numpy() for kind, values in self.maps.items()}


@dataclass(frozen=True, slots=True)
class ChosenHeads:
    """The heads of one layer that are asked for, in float32.

    Attributes:
        query: (H, T, K).
        key: (H, S, K).
        bias: (T, S) or (H, T, S), or None.
        norms: What weights are multiplied by (H, 1, S), or None.
    """

    query: Tensor
    key: Tensor
    bias: Tensor | None
    norms: Tensor | None

    def values(self, rows: slice) -> Tensor:
        """What is asked for of some rows (H, rows, S)."""
        bias = None if self.bias is None else self.bias[..., rows, :]
        weights = attention_weights(self.query[:, rows], self.key, bias)
        return weights if self.norms is None else weights.mul_(self.norms)


def chosen(heads: Tensor, numbers: tuple[int, ...]) -> Tensor:
    """Some of the heads (H, ...), by views: a list of numbers would travel to the device."""
    if numbers == tuple(range(len(heads))):
        return heads.float()
    return torch.stack([heads[number] for number in numbers]).float()


Merge = Callable[[Tensor, Tensor, int, int], None]
"""Puts the heads (H, T, S) of one layer, the so-manieth of so many asked for, into an answer
(layers, heads, T, S)."""


def keep(answer: Tensor, heads: Tensor, place: int, count: int) -> None:
    """Each head of each layer."""
    answer[place] = heads


def mean_heads(answer: Tensor, heads: Tensor, place: int, count: int) -> None:
    """Each layer's mean."""
    answer[place, 0] = heads.mean(dim=0)


def max_heads(answer: Tensor, heads: Tensor, place: int, count: int) -> None:
    """Each layer's largest value between two tokens."""
    answer[place, 0] = heads.amax(dim=0)


def add_mean(answer: Tensor, heads: Tensor, place: int, count: int) -> None:
    """One mean over all layers and heads."""
    answer[0, 0].add_(heads.mean(dim=0), alpha=1.0 / count)


def last_mean(answer: Tensor, heads: Tensor, place: int, count: int) -> None:
    """The mean of this layer, in place of the one before."""
    answer[0, 0] = heads.mean(dim=0)


MERGES: dict[Reduction, Merge] = {
    Reduction.NONE: keep,
    Reduction.MEAN_HEADS: mean_heads,
    Reduction.MAX_HEADS: max_heads,
    Reduction.MEAN_LAYERS_HEADS: add_mean,
    Reduction.ROLLOUT: last_mean,
}


def passed_on(weights: Tensor) -> Tensor:
    """A layer's share in a rollout (T, T): half of its weights, half of what each token was.

    Rollout is the product of these, the first layer's on the right.

    Source: Abnar and Zuidema 2020, "Quantifying Attention Flow in Transformers", section 3:
    A = 0.5 W + 0.5 I, with rows that sum to 1.
    """
    mixed = 0.5 * (weights + torch.eye(len(weights), device=weights.device))
    return mixed / mixed.sum(dim=-1, keepdim=True)


class StepsRecorder:
    """Keeps one token's query and the keys and values that it meets.

    Args:
        query: What is asked.
    """

    def __init__(self, query: StepsQuery) -> None:
        self.query = query
        self.tensors: list[Tensor] = []

    def layers(self, kind: AttentionKind) -> Collection[int]:
        """The one asked for."""
        return (self.query.layer,) if kind is self.query.kind else ()

    def record(self, place: Place, projected: Projected) -> Slices[None]:
        """Keeps the inputs of the computation; of a decoder's keys, those up to the token."""
        token = self.query.query
        end = token + 1 if place.kind is AttentionKind.DECODER else projected.key.shape[1]
        attended = [projected.key[:, :end], projected.value[:, :end]]
        out = projected.module.out
        self.tensors = [projected.query[:, token], *attended, float_weight(out), out.bias]
        if projected.bias is not None and projected.bias.dim() == 3:
            self.tensors.append(projected.bias[:, token])
        yield from ()  # at once

    def result(self) -> AttentionSteps:
        """The computation, gone through on the host."""
        query, key, value, *others = (t.float().cpu().numpy() for t in self.tensors)
        return attention_steps(query, key, value, self.query.head, *others)


def float_weight(product: nn.Module) -> Tensor:
    """The matrix (out, in) of a layer, whichever way it multiplies."""
    weight = product.float_weight if isinstance(product, Int8Product) else product.weight
    return cast("Tensor", weight)


def head_matrices(module: MultiHeadAttention) -> Tensor:
    """W_O in the parts that each head's values meet (H, K, D): a view."""
    weight = float_weight(module.out)  # (D, H * K)
    return weight.view(len(weight), module.num_heads, -1).permute(1, 2, 0)


def value_norms(value: Tensor, matrices: Tensor) -> Tensor:
    """The length (H, S) of each value (H, S, K) times its head's part of W_O (H, K, D).

    Source: Kobayashi et al. 2020, section 3, without the weight.
    """
    norms: Tensor = torch.linalg.vector_norm(value @ matrices, dim=-1)
    return norms
