"""Makes the attention and alignment of texts, in the requested form, from results of workers.

A worker computes the matrices and reduces them over heads and layers. This module merges tokens
into words and keeps the largest values of each row. `service/api/attention` writes the results.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from model.inspection.query import (
    AttentionKind,
    AttentionMaps,
    AttentionQuery,
    ProbabilityQuery,
    Query,
    Reduction,
    TraceQuery,
)
from model.inspection.results import AttentionTrace, TokenProbabilities
from model.tokenization.tokenizer import Span, TokenizedText, Tokenizer
from service.errors import SHOWN_CHARS, InvalidRequestError, RequestTooLargeError
from service.items import Result
from service.tasks.alignment.alignment import (
    Alignment,
    align,
    input_spans,
    merge,
    text_span,
    word_spans,
)
from service.tasks.attention.query import Aligner
from service.tasks.attention.requests import AttentionRequest, ProbabilitiesQuestion


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

    def read(self, found: TokenProbabilities, decimals: int | None) -> dict[str, Any]:
        """Returns the probabilities for a response, rounded to `decimals`.

        A list of likeliest tokens has fewer than `top_k` if fewer have a probability above 0. JSON
        has null in place of minus infinity.
        """
        likeliest = [[i for i in row if i >= 0] for row in found.likeliest.tolist()]
        named = [*self.query.named]
        return {
            "num_candidates": found.num_candidates,
            "log_probs": rounded(found.log_probs, decimals),
            "ranks": found.ranks,
            "entropies": rounded(found.entropies, decimals),
            "is_candidate": found.is_candidate,
            "likeliest": {
                "tokens": list(map(self.tokenizer.pieces, likeliest)),
                "ids": found.likeliest,
                "log_probs": rounded(found.likeliest_log_probs, decimals),
            },
            "named": {
                "tokens": self.tokenizer.pieces(named),
                "ids": named,
                "is_candidate": found.is_named_candidate,
                "log_probs": rounded(found.named_log_probs, decimals),
                "ranks": found.named_ranks,
            },
        }


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


HEADS = {
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


@dataclass(frozen=True, slots=True)
class Labels:
    """The tokens or the words of the source or of the target."""

    text: str
    tokens: Annotated[
        list[str],
        Field(description="Tokens as the vocabulary spells them; with `level` `word`, words."),
    ]
    ids: Annotated[
        list[int] | list[list[int]], Field(description="Id of each token, or ids of each word.")
    ]
    offsets: Annotated[
        list[Span],
        Field(
            description="[start, end) of each token or word in `text`, in code points. White space "
            "around a token or word is excluded."
        ),
    ]
    special: Annotated[
        list[bool], Field(description="True for tokens that are not text, such as EOS.")
    ]


@dataclass(frozen=True, slots=True)
class TargetLabels(Labels):
    """The tokens or the words of the target.

    Row t of cross-attention belongs to the decode step that reads entry t of `input_tokens` and
    predicts entry t of `tokens`.
    """

    input_tokens: Annotated[
        list[str],
        Field(
            description="Tokens that the decoder reads, beginning with its start token. If the "
            "first string is empty, the model has no start token, and its decoder begins with a "
            "vector of zeros."
        ),
    ]


def token_labels(side: TokenizedText) -> Labels:
    return Labels(side.text, side.pieces, side.ids, side.offsets, side.special)


def word_labels(side: TokenizedText, words: Sequence[Span]) -> Labels:
    offsets = [text_span(side, word) for word in words]
    special = [side.special[first] for first, _ in words]
    tokens = [
        side.pieces[first] if is_special else side.text[slice(*offset)]
        for (first, _), is_special, offset in zip(words, special, offsets, strict=True)
    ]
    return Labels(
        side.text, tokens, [side.ids[first:end] for first, end in words], offsets, special
    )


def with_inputs(labels: Labels, start: str) -> TargetLabels:
    """Returns the labels of a target, whose decoder reads first a token spelt `start`."""
    values = labels.text, labels.tokens, labels.ids, labels.offsets, labels.special
    return TargetLabels(*values, [start, *labels.tokens[:-1]])


@dataclass(frozen=True, slots=True)
class Attention:
    """The attention of one kind in one sentence, as a query has selected it."""

    kind: AttentionKind
    query: AttentionQuery
    data: NDArray[np.float32]  # (layers, heads, rows, columns); a reduced dimension has size 1
    # Column of each value if `data` has only the largest values of each row.
    indices: NDArray[np.int32] | None = None

    @property
    def heads(self) -> list[int] | str:
        if self.query.norm.merges_heads and self.query.reduce is not Reduction.ROLLOUT:
            return "all"
        return HEADS.get(self.query.reduce, list(self.query.heads))


@dataclass(slots=True)
class SequenceAttention:
    """The attention of one text, and its alignment with a translation.

    A text that is embedded has no target and no alignment. The alignment gives each word as a span
    of token indices, and the probabilities are those of tokens, even if the labels are words.
    """

    source: Labels
    target: TargetLabels | None
    attentions: list[Attention]
    alignment: Alignment | None = None
    detachment: float | None = None
    probabilities: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class TraceResult:
    """The attention of one token in one head, step by step.

    `start` is the spelling of the decoder's start token; "" if the model has no start token.
    """

    model: str
    query: TraceQuery
    source: TokenizedText
    target: TokenizedText | None
    start: str
    trace: AttentionTrace


@dataclass(frozen=True, slots=True)
class Queries:
    """The queries of a request; only `attention` is present for texts that are embedded."""

    attention: AttentionQuery
    aligner: Aligner | None = None
    scoring: Scoring | None = None  # of the probabilities, if they are requested
    detaching: AttentionQuery | None = None  # of the score `detachment`, if it is requested

    @property
    def all(self) -> tuple[Query, ...]:
        """The queries about each text, in the order of the answers in its result."""
        aligning = None if self.aligner is None else self.aligner.query
        scoring = None if self.scoring is None else self.scoring.query
        queries = self.attention, aligning, scoring, self.detaching
        return tuple(query for query in queries if query is not None)

    def assemble(
        self,
        texts: Sequence[InspectedText],
        results: Sequence[Result],
        start: str,
        request: AttentionRequest,
    ) -> list[SequenceAttention]:
        items = []
        for text, result in zip(texts, results, strict=True):
            maps, *others = result.value
            found = [Attention(kind, self.attention, values) for kind, values in maps.items()]
            item = sequence_attention(text, start, found, request)
            if self.aligner is not None and text.target is not None:
                cross, shift = weights_of(others.pop(0)), self.aligner.shift
                item.alignment = align(cross, text.source, text.target, shift)
            if self.scoring is not None:
                item.probabilities = self.scoring.read(others.pop(0), request.decimals)
            if self.detaching is not None:
                item.detachment = detachment(weights_of(others.pop(0)))
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


def sequence_attention(
    text: InspectedText, start: str, attentions: Sequence[Attention], request: AttentionRequest
) -> SequenceAttention:
    """Returns the attention of a text in the `level`, `top_k` and `decimals` of a request.

    Each of `attentions` is between tokens: (layers, heads, T or S, T or S). `start` is the spelling
    of the decoder's start token; "" if the model has no start token.
    """
    source, target = text.source, text.target
    labels, target_labels = token_labels(source), None if target is None else token_labels(target)
    if request.level == "word":
        words, target_words = word_spans(source), [] if target is None else word_spans(target)
        spans = {
            "encoder": (words, words),
            "decoder": (target_words, input_spans(target_words)),
            "cross": (target_words, words),
        }
        attentions = [replace(a, data=merge(a.data, *spans[a.kind])) for a in attentions]
        labels = word_labels(source, words)
        target_labels = None if target is None else word_labels(target, target_words)
    read = None if target_labels is None else with_inputs(target_labels, start)
    return SequenceAttention(labels, read, [_cut(a, request) for a in attentions])


def _cut(attention: Attention, request: AttentionRequest) -> Attention:
    data, indices = attention.data, attention.indices
    if request.top_k is not None:
        data, indices = largest(data, request.top_k)
    return replace(attention, data=rounded(data, request.decimals), indices=indices)


def largest(data: NDArray[np.float32], count: int) -> tuple[NDArray[np.float32], NDArray[np.int32]]:
    """Returns the `count` largest values of each row, largest first, and their columns.

    Equal values keep the order of their columns. Rows with at most `count` values keep all values.
    """
    order = np.argsort(-data, axis=-1, kind="stable")[..., :count]
    return np.take_along_axis(data, order, axis=-1), order.astype(np.int32)
