"""Makes the attention and the alignment of sentence pairs from the results of the workers."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from model.inspection.query import AttentionMaps, AttentionQuery, Query, Reduction
from service.items.result import Result
from service.tasks.alignment.aligner import Pair
from service.tasks.alignment.alignment import Alignment, align
from service.tasks.alignment.detachment import detachment
from service.tasks.attention.probabilities import Scoring
from service.tasks.attention.query import Aligner
from service.tasks.attention.requests import View
from service.tasks.attention.results import Attention, PairAttention, pair_attention

HEADS = {
    Reduction.MEAN_HEADS: "mean",
    Reduction.MEAN_LAYERS_HEADS: "mean",
    Reduction.MAX_HEADS: "max",
    Reduction.ROLLOUT: "rollout",
}
"""Value of `heads` in a response, for each reduction that merges all heads into one."""


@dataclass(frozen=True, slots=True)
class PairQueries:
    """The queries of a request about sentence pairs.

    Attributes:
        attention: Query for the attention that the request asks for.
        aligner: Cross-attention that aligns the words of each pair.
        scoring: Query for the probabilities of the target tokens; None if they are not requested.
        detaching: Query for the cross-attention of the detachment score; None if the score is not
            requested.
    """

    attention: AttentionQuery
    aligner: Aligner
    scoring: Scoring | None = None
    detaching: AttentionQuery | None = None

    @property
    def all(self) -> tuple[Query, ...]:
        """Queries about each pair, in the order of the answers in a worker's result."""
        scoring = None if self.scoring is None else self.scoring.query
        queries = self.attention, self.aligner.query, scoring, self.detaching
        return tuple(query for query in queries if query is not None)

    def assemble(
        self, pairs: Sequence[Pair], results: Sequence[Result], start: str, view: View
    ) -> list[PairAttention]:
        """Returns the attention and the alignment of each pair.

        Args:
            pairs: Sentence pairs.
            results: Result of each pair.
            start: Spelling of the decoder's start token; "" if the model has no start token.
            view: Form of the attention that the client requests.
        """
        items = []
        for pair, result in zip(pairs, results, strict=True):
            maps, cross, *others = result.value
            alignment = align_pair(pair, cross, self.aligner)
            found = attentions(self.attention, maps)
            item = pair_attention(pair.source, pair.target, start, found, alignment, view)
            if self.scoring is not None:
                scores = self.scoring.read(others.pop(0), view.decimals)
                item = replace(item, probabilities=scores)
            if self.detaching is not None:
                score = detachment(weights_of(others.pop(0)))
                item = replace(item, detachment=score)
            items.append(item)
        return items


def align_pair(pair: Pair, cross: AttentionMaps, aligner: Aligner) -> Alignment:
    """Aligns the words of a sentence pair by `cross`, the answer to `aligner.query`."""
    return align(weights_of(cross), pair.source, pair.target, aligner.shift)


def weights_of(cross: AttentionMaps) -> NDArray[np.float32]:
    """Returns the cross-attention (T, S) of T target tokens to S source tokens."""
    (maps,) = cross.values()  # (1, 1, T, S)
    weights: NDArray[np.float32] = maps[0, 0]
    return weights


def heads_of(query: AttentionQuery) -> list[int] | str:
    """Returns the value of `heads` in a response."""
    if query.norm.merges_heads and query.reduce is not Reduction.ROLLOUT:
        return "all"
    return HEADS.get(query.reduce, list(query.heads))


def attentions(query: AttentionQuery, maps: AttentionMaps) -> list[Attention]:
    """Returns the attention of each kind, with the names that a response uses."""
    return [
        Attention(
            kind=kind.value,
            layers=list(query.layers[kind]),
            heads=heads_of(query),
            reduce=query.reduce.value,
            norm=query.norm.value,
            data=values,
        )
        for kind, values in maps.items()
    ]
