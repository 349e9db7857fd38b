"""Results of requests for attention, in the form that a client requests.

A worker computes the matrices and reduces them over heads and layers. This module merges tokens
into words and keeps the largest values of each row. `service/api/attention` writes the results.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from model.inspection.query import TraceQuery
from model.inspection.states import TokenStates
from model.inspection.trace import AttentionTrace
from model.tokenization.tokenizer import TokenizedText
from service.tasks.alignment.alignment import Alignment
from service.tasks.alignment.words import input_spans, merge, word_spans
from service.tasks.attention.arrays import largest, rounded
from service.tasks.attention.labels import Labels, token_labels, word_labels
from service.tasks.attention.probabilities import Probabilities
from service.tasks.attention.requests import Kind, View


@dataclass(frozen=True, slots=True)
class Attention:
    """The attention of one kind in one sentence.

    Attributes:
        kind: `encoder` (source to source), `decoder` (target to decoder input) or `cross` (target
            to source).
        layers: Numbers of the layers.
        heads: Numbers of the heads, or `mean`, `max` or `rollout`. It is `all` for contributions.
        reduce: Reduction of the request.
        norm: Kind of the values in `data`: a member of `model.inspection.query.AttentionNorm`.
        data: Values (layers, heads, rows, columns); a dimension that was reduced has size 1.
        indices: Column of each value if `data` has only the largest values of each row; else None.
    """

    kind: Kind
    layers: list[int]
    heads: list[int] | str
    reduce: str
    norm: str
    data: NDArray[np.float32]
    indices: NDArray[np.int32] | None = None


@dataclass(frozen=True, slots=True)
class PairAttention:
    """The attention and the alignment of a sentence and its translation.

    Attributes:
        source: Labels of the source tokens or words.
        target: Labels of the target tokens or words.
        attentions: Attention of each requested kind.
        alignment: Word alignment. It gives each word as a span of token indices, even if the labels
            are words.
        detachment: Score of `service.tasks.alignment.detachment`; None if it is not requested.
        probabilities: Probabilities of the target tokens, even if the labels are words; None if
            they are not requested.
    """

    source: Labels
    target: Labels
    attentions: list[Attention]
    alignment: Alignment
    detachment: float | None = None
    probabilities: Probabilities | None = None


@dataclass(frozen=True, slots=True)
class TextAttention:
    """The attention of a text that is embedded.

    Attributes:
        source: Labels of its tokens or words.
        attentions: Attention of the encoder.
    """

    source: Labels
    attentions: list[Attention]


SequenceAttention = PairAttention | TextAttention


@dataclass(frozen=True, slots=True)
class InspectionResult:
    """The attention of some sentences.

    Attributes:
        model: Served name of the model.
        items: Attention of each sentence.
    """

    model: str
    items: Sequence[SequenceAttention]


@dataclass(frozen=True, slots=True)
class TraceResult:
    """The attention of one token in one head, step by step.

    Attributes:
        model: Served name of the model.
        query: Query whose layer, head and token are counted from 0.
        source: Tokens of the text.
        target: Tokens of its translation; None for a text that is embedded.
        start: Spelling of the decoder's start token; "" if the model has no start token.
        trace: Values that every step of the computation takes or produces.
        states: Vectors of the token from the input of the layer to its output; None if they are not
            requested.
    """

    model: str
    query: TraceQuery
    source: TokenizedText
    target: TokenizedText | None
    start: str
    trace: AttentionTrace
    states: TokenStates | None = None


def pair_attention(
    source: TokenizedText,
    target: TokenizedText,
    start: str,
    attentions: Sequence[Attention],
    alignment: Alignment,
    view: View,
) -> PairAttention:
    """Returns the attention of a sentence pair in the form that a client requests.

    Args:
        source: Source sentence of S tokens.
        target: Translation of T tokens.
        start: Spelling of the decoder's start token; "" if the model has no start token.
        attentions: Attention between tokens; each (layers, heads, T or S, T or S).
        alignment: Word alignment of the pair.
        view: Requested form.
    """
    if view.level == "word":
        source_words, target_words = word_spans(source), word_spans(target)
        spans = {
            "encoder": (source_words, source_words),
            "decoder": (target_words, input_spans(target_words)),
            "cross": (target_words, source_words),
        }
        attentions = [replace(a, data=merge(a.data, *spans[a.kind])) for a in attentions]
        labels = word_labels(source, source_words), word_labels(target, target_words, start)
    else:
        labels = token_labels(source), token_labels(target, start)
    return PairAttention(*labels, [_cut(a, view) for a in attentions], alignment)


def text_attention(
    text: TokenizedText, attentions: Sequence[Attention], view: View
) -> TextAttention:
    """Returns the attention of a text to itself in the form that a client requests.

    Args:
        text: Text of T tokens.
        attentions: Attention between tokens; each (layers, heads, T, T).
        view: Requested form.
    """
    labels = token_labels(text)
    if view.level == "word":
        words = word_spans(text)
        attentions = [replace(a, data=merge(a.data, words, words)) for a in attentions]
        labels = word_labels(text, words)
    return TextAttention(labels, [_cut(a, view) for a in attentions])


def _cut(attention: Attention, view: View) -> Attention:
    data, indices = attention.data, attention.indices
    if view.top_k is not None:
        data, indices = largest(data, view.top_k)
    return replace(attention, data=rounded(data, view.decimals), indices=indices)
