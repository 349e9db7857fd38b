"""Makes the attention and alignment of texts, in the requested form, from results of workers.

A worker computes the matrices and reduces them over heads and layers. This module merges tokens
into words and keeps the largest values of each row. `service/api/attention` writes the results.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray

from model.inspection.query import (
    AttentionKind,
    AttentionMaps,
    AttentionQuery,
    ProbabilityQuery,
    Query,
    Reduction,
    ScoreQuery,
    TraceQuery,
)
from model.inspection.results import AttentionTrace, TokenProbabilities
from model.tokenization.pairs import PairText
from model.tokenization.tokenizer import Span, TokenizedText, Tokenizer
from service.errors import SHOWN_CHARS, InvalidRequestError, RequestTooLargeError
from service.tasks.alignment.alignment import align, input_spans, merge, text_span, word_spans
from service.tasks.attention.query import Aligner
from service.tasks.attention.replies import (
    AttentionBody,
    AttentionItemBody,
    Labels,
    LikeliestBody,
    NamedBody,
    PairLabels,
    ProbabilitiesBody,
    StepsBlock,
    StepsEmbedding,
    StepsOutput,
    StepsResponse,
    StepsRow,
    StepsToken,
    StepsVectors,
    TargetLabels,
)
from service.tasks.attention.requests import AttentionRequest, Include, ProbabilitiesQuestion
from service.tasks.reranking import scores_of


@dataclass(frozen=True, slots=True)
class Scoring:
    """The query for the requested probabilities, and the tokenizer of the target language."""

    query: ProbabilityQuery
    tokenizer: Tokenizer

    @classmethod
    def of(
        cls, question: ProbabilitiesQuestion, tokenizer: Tokenizer, first_id: int | None
    ) -> Self:
        """Returns the query of a request; every target begins with `first_id` if it is given."""
        named = tuple(_id_of(token, tokenizer) for token in question.tokens)
        return cls(ProbabilityQuery(question.top_k, named, first_id), tokenizer)

    def read(self, found: TokenProbabilities, decimals: int | None) -> ProbabilitiesBody:
        """Returns the probabilities for a response, rounded to `decimals`.

        A list of likeliest tokens has fewer than `top_k` if fewer have a probability above 0.
        """
        likeliest = [[i for i in row if i >= 0] for row in found.likeliest.tolist()]
        named = [*self.query.named]
        return ProbabilitiesBody(
            num_candidates=found.num_candidates,
            log_probs=rounded(found.log_probs, decimals),
            ranks=found.ranks,
            entropies=rounded(found.entropies, decimals),
            is_candidate=found.is_candidate,
            likeliest=LikeliestBody(
                tokens=list(map(self.tokenizer.pieces, likeliest)),
                ids=found.likeliest,
                log_probs=rounded(found.likeliest_log_probs, decimals),
            ),
            named=NamedBody(
                tokens=self.tokenizer.pieces(named),
                ids=named,
                is_candidate=found.is_named_candidate,
                log_probs=rounded(found.named_log_probs, decimals),
                ranks=found.named_ranks,
            ),
        )


def _id_of(token: str | int, tokenizer: Tokenizer) -> int:
    """Returns the id of a named token; for a text of several tokens, the id of the first one."""
    if isinstance(token, int):
        if 0 <= token < tokenizer.vocab_size:
            return token
        raise InvalidRequestError(
            f"Invalid request: probabilities.tokens has the id {str(token)[:SHOWN_CHARS]}, and the "
            f"vocabulary has ids 0 to {tokenizer.vocab_size - 1}"
        )
    ids = tokenizer.encode(token)
    if not ids:
        raise InvalidRequestError(
            "Invalid request: probabilities.tokens has a text without tokens; send a word or an id"
        )
    return ids[0]


def check_num_probabilities(count: int, limit: int, way_out: str) -> None:
    if count > limit:
        raise RequestTooLargeError(
            f"Invalid request: {count} probabilities exceed the limit of {limit}: {way_out}, or "
            "raise REGARD_MAX_ATTENTION_VALUES"
        )


def rounded(data: NDArray[np.float32], decimals: int | None) -> NDArray[np.float32]:
    """Rounds values so that JSON writes them with at most `decimals` decimals."""
    if decimals is None:
        return data
    return np.round(data.astype(np.float64), decimals).astype(np.float32)


def rounded_number(value: float, decimals: int | None) -> float:
    return value if decimals is None else round(value, decimals)


HEADS: dict[Reduction, Literal["mean", "max", "rollout"]] = {
    Reduction.MEAN_HEADS: "mean",
    Reduction.MEAN_LAYERS_HEADS: "mean",
    Reduction.MAX_HEADS: "max",
    Reduction.ROLLOUT: "rollout",
}
"""Value of `heads` in a response, for each reduction that merges all heads into one."""


@dataclass(frozen=True, slots=True)
class InspectedText:
    """A tokenised text, with its translation unless the text is embedded."""

    source: TokenizedText
    target: TokenizedText | None = None

    @property
    def lengths(self) -> tuple[int, int]:
        return len(self.source.ids), len(self.target.ids) if self.target else 0


def token_labels(side: TokenizedText) -> Labels:
    values = side.text, side.pieces, side.ids, side.offsets, side.special
    return PairLabels(*values, side.parts) if isinstance(side, PairText) else Labels(*values)


def word_labels(side: TokenizedText, words: Sequence[Span]) -> Labels:
    offsets = [text_span(side, word) for word in words]
    special = [side.special[first] for first, _ in words]
    tokens = [
        side.pieces[first] if is_special else side.text[slice(*offset)]
        for (first, _), is_special, offset in zip(words, special, offsets, strict=True)
    ]
    values = side.text, tokens, [side.ids[first:end] for first, end in words], offsets, special
    if not isinstance(side, PairText):
        return Labels(*values)
    parts = side.parts
    return PairLabels(*values, [parts[first] for first, _ in words])


def with_inputs(labels: Labels, start: str) -> TargetLabels:
    """Returns the labels of a target, whose decoder reads first a token spelt `start`."""
    values = labels.text, labels.tokens, labels.ids, labels.offsets, labels.special
    return TargetLabels(*values, [start, *labels.tokens[:-1]])


@dataclass(frozen=True, slots=True)
class Queries:
    """The queries of a request; those after `attention` are for translations or for pairs."""

    attention: AttentionQuery
    aligner: Aligner | None = None
    scoring: Scoring | None = None  # of the probabilities, if they are requested
    detaching: AttentionQuery | None = None  # of the score `detachment`, if it is requested
    score: ScoreQuery | None = None  # of pairs

    @property
    def all(self) -> tuple[Query, ...]:
        """The queries about each text, in the order of the answers in its result."""
        aligning = None if self.aligner is None else self.aligner.query
        scoring = None if self.scoring is None else self.scoring.query
        queries = self.attention, aligning, scoring, self.detaching, self.score
        return tuple(query for query in queries if query is not None)

    def assemble(
        self,
        texts: Sequence[InspectedText],
        answers: Sequence[Any],
        start: str,
        request: AttentionRequest,
    ) -> list[AttentionItemBody]:
        items = []
        for text, (maps, *others) in zip(texts, answers, strict=True):
            item = attention_item(text, start, maps, self.attention, request)
            if self.score is not None:
                logits = np.array([others.pop(0)], np.float32)
                (item.score,) = scores_of(logits, request.raw_scores)
            if self.aligner is not None and text.target is not None:
                cross, shift = weights_of(others.pop(0)), self.aligner.shift
                found = align(cross, text.source, text.target, shift)
                pairs = [(s, t, rounded_number(w, request.decimals)) for s, t, w in found.pairs]
                item.alignment = replace(found, pairs=pairs)
            if self.scoring is not None:
                item.probabilities = self.scoring.read(others.pop(0), request.decimals)
            if self.detaching is not None:
                score = detachment(weights_of(others.pop(0)))
                item.detachment = rounded_number(score, request.decimals)
            items.append(item)
        return items


def weights_of(cross: AttentionMaps) -> NDArray[np.float32]:
    """Returns the only map (T, S) of T target tokens and S source tokens."""
    (maps,) = cross.values()  # (1, 1, T, S)
    weights: NDArray[np.float32] = maps[0, 0]
    return weights


def detachment(weights: NDArray[np.float32]) -> float:
    """Scores how far a translation is detached from its source, from 0 to nearly 1.

    A hallucinating decoder attends to the same few source tokens. The score is the Wasserstein
    distance from the mean cross-attention (T, S) of all target tokens to equal attention. With a
    cost of 1 between different tokens, it is half the sum of the absolute differences.

    Source: Guerreiro et al. 2023, "Optimal Transport for Unsupervised Hallucination Detection in
    Neural Machine Translation", section 4.1 (Wass-to-Unif).
    """
    received = weights.astype(np.float64).mean(axis=0)
    return float(np.abs(received - 1 / len(received)).sum() / 2)


def attention_item(
    text: InspectedText,
    start: str,
    maps: AttentionMaps,
    query: AttentionQuery,
    request: AttentionRequest,
) -> AttentionItemBody:
    """Returns the attention of a text in the `level`, `top_k` and `decimals` of a request.

    The maps are between tokens: (layers, heads, T or S, T or S). `start` is the spelling of the
    decoder's start token; "" if the model has no start token.
    """
    source, target = text.source, text.target
    labels, target_labels = token_labels(source), None if target is None else token_labels(target)
    if request.level == "word":
        words, target_words = word_spans(source), [] if target is None else word_spans(target)
        spans = {
            AttentionKind.ENCODER: (words, words),
            AttentionKind.DECODER: (target_words, input_spans(target_words)),
            AttentionKind.CROSS: (target_words, words),
        }
        maps = {kind: merge(data, *spans[kind]) for kind, data in maps.items()}
        labels = word_labels(source, words)
        target_labels = None if target is None else word_labels(target, target_words)
    attentions = [_attention(kind, data, query, request) for kind, data in maps.items()]
    item = AttentionItemBody(source=labels, attentions=attentions)
    if target_labels is not None:
        item.target = with_inputs(target_labels, start)
    return item


def _attention(
    kind: AttentionKind,
    data: NDArray[np.float32],
    query: AttentionQuery,
    request: AttentionRequest,
) -> AttentionBody:
    indices = None
    if request.top_k is not None:
        data, indices = largest(data, request.top_k)
    is_merged = query.norm.merges_heads and query.reduce is not Reduction.ROLLOUT
    found = AttentionBody(
        kind=kind,
        layers=[*query.layers[kind]],
        heads="all" if is_merged else HEADS.get(query.reduce, [*query.heads]),
        reduce=query.reduce,
        norm=query.norm,
        shape=data.shape,
        data=rounded(data, request.decimals),
    )
    if indices is not None:
        found.indices = indices
    return found


def largest(data: NDArray[np.float32], count: int) -> tuple[NDArray[np.float32], NDArray[np.int32]]:
    """Returns the `count` largest values of each row, largest first, and their columns.

    Equal values keep the order of their columns. Rows with at most `count` values keep all values.
    """
    order = np.argsort(-data, axis=-1, kind="stable")[..., :count]
    return np.take_along_axis(data, order, axis=-1), order.astype(np.int32)


SHOWN_VALUES = 8
"""Number of leading values of weight × v that each row of a steps response contains."""


def steps_of(
    model: str,
    text: InspectedText,
    start: str,
    query: TraceQuery,
    trace: AttentionTrace,
    include: Collection[Include],
) -> StepsResponse:
    source = token_labels(text.source)
    target = None if text.target is None else with_inputs(token_labels(text.target), start)
    inputs = [] if target is None else target.input_tokens
    is_encoder = query.kind is AttentionKind.ENCODER
    found = StepsResponse(
        model=model,
        kind=query.kind,
        layer=query.layer,
        head=query.head,
        head_dim=len(trace.query),
        scale=trace.scale,
        source=source,
        query=StepsToken(
            index=query.query,
            token=(source.tokens if is_encoder else inputs)[query.query],
            predicted=None if target is None or is_encoder else target.tokens[query.query],
        ),
        rows=_rows(trace, inputs if query.kind is AttentionKind.DECODER else source.tokens),
        z=trace.z,
    )
    if target is not None:
        found.target = target
    if "vectors" in include:
        found.vectors = StepsVectors(q=trace.query, k=trace.key, v=trace.value)
    if "output" in include or "output_weight" in include:
        found.output = StepsOutput(
            concatenated=trace.concatenated, bias=trace.output_bias, result=trace.result
        )
        if "output_weight" in include:
            found.output.weight = trace.output_weight
    if (states := trace.states) is not None:
        found.block = StepsBlock(
            embedding=StepsEmbedding(
                token=states.token, position=states.position, sum=states.embedded
            ),
            input=states.input,
            attention=states.attention,
            attended=states.attended,
            feed_forward=states.feed_forward,
            output=states.output,
        )
    return found


def _rows(trace: AttentionTrace, tokens: list[str]) -> list[StepsRow]:
    norms = np.linalg.norm(trace.weighted.astype(np.float64), axis=-1).astype(np.float32)
    columns = zip(trace.scores, trace.scaled, trace.weights, norms, trace.weighted, strict=True)
    rows = []
    for key, (score, scaled, weight, norm, weighted) in enumerate(columns):
        row = StepsRow(
            key=key,
            token=tokens[key],
            score=shortest(score),
            scaled=shortest(scaled),
            weight=shortest(weight),
            value_norm=shortest(norm),
            value=weighted[:SHOWN_VALUES],
        )
        if trace.bias is not None:
            row.bias = shortest(trace.bias[key])
        rows.append(row)
    return rows


def shortest(value: np.float32) -> float:
    """Returns the shortest decimal number that rounds to `value` in float32."""
    return float(str(value))
