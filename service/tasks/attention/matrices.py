"""Attention matrices as they are shown: chosen layers, between words, the largest of each row.

The numbers come from a worker, reduced over heads and layers as was asked; how they are written
is up to `attention_formats.py`.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from model.tokenization.tokenizer import TokenizedText
from service.errors import RequestTooLargeError
from service.tasks.attention.alignment import Alignment
from service.tasks.attention.labels import Labels, token_labels, word_labels
from service.tasks.attention.requests import Kind, View
from service.tasks.attention.words import input_spans, merge, word_spans


@dataclass(frozen=True, slots=True)
class Attention:
    """The attention of one kind in one sentence.

    Attributes:
        kind: Encoder: source to source. Decoder: target to what is put into the decoder. Cross:
            target to source.
        layers: Numbers of the layers that went in.
        heads: Numbers of the heads, or `mean`, `max` or `rollout`.
        reduce: As in the request.
        norm: As in the request.
        data: (layers, heads, rows, columns); a dimension that was reduced has size 1.
        indices: With `data` cut to the largest of each row: the columns they are from.
    """

    kind: Kind
    layers: list[int]
    heads: list[int] | str
    reduce: str
    norm: str
    data: NDArray[np.float32]
    indices: NDArray[np.int32] | None = None


@dataclass(frozen=True, slots=True)
class AttentionItem:
    """All that is shown of one sentence.

    Attributes:
        source: Labels of its tokens or words.
        target: Likewise.
        attentions: One of each kind that was asked for.
        alignment: By tokens, whatever the level of the rest.
    """

    source: Labels
    target: Labels
    attentions: list[Attention]
    alignment: Alignment


@dataclass(frozen=True, slots=True)
class TextItem:
    """All that is shown of one text that is embedded.

    Attributes:
        source: Labels of its tokens or words.
        attentions: That of its encoder.
    """

    source: Labels
    attentions: list[Attention]


ShownItem = AttentionItem | TextItem


def show(
    source: TokenizedText,
    target: TokenizedText,
    start: str,
    attentions: Sequence[Attention],
    alignment: Alignment,
    view: View,
) -> AttentionItem:
    """One sentence as a client wants to see it.

    Args:
        source: S tokens.
        target: T tokens.
        start: What the decoder starts from, for people: a token's spelling, or "" for none.
        attentions: Between tokens: (layers, heads, T or S, T or S) each.
        alignment: Its alignment.
        view: What is wanted.
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
    return AttentionItem(*labels, [_cut(a, view) for a in attentions], alignment)


def show_text(text: TokenizedText, attentions: Sequence[Attention], view: View) -> TextItem:
    """One text, which attends to itself alone, as a client wants to see it.

    Args:
        text: T tokens.
        attentions: Between tokens: (layers, heads, T, T) each.
        view: What is wanted.
    """
    labels = token_labels(text)
    if view.level == "word":
        words = word_spans(text)
        attentions = [replace(a, data=merge(a.data, words, words)) for a in attentions]
        labels = word_labels(text, words)
    return TextItem(labels, [_cut(a, view) for a in attentions])


def _cut(attention: Attention, view: View) -> Attention:
    data, indices = attention.data, attention.indices
    if view.top_k is not None:
        data, indices = largest(data, view.top_k)
    return replace(attention, data=rounded(data, view.decimals), indices=indices)


def largest(data: NDArray[np.float32], count: int) -> tuple[NDArray[np.float32], NDArray[np.int32]]:
    """The largest values of each row (..., S), largest first, and the columns they are from.

    Of equal values the one further left comes first. Both are (..., min(count, S)).
    """
    order = np.argsort(-data, axis=-1, kind="stable")[..., :count]
    return np.take_along_axis(data, order, axis=-1), order.astype(np.int32)


def rounded(data: NDArray[np.float32], decimals: int | None) -> NDArray[np.float32]:
    """Values rounded to so many decimals, which their shortest spelling does not exceed."""
    if decimals is None:
        return data
    return np.round(data.astype(np.float64), decimals).astype(np.float32)


def check_values(count: int, limit: int) -> None:
    """Refuses more values than are allowed.

    Raises:
        RequestTooLargeError: There would be.
    """
    if count > limit:
        raise RequestTooLargeError(
            f"Invalid request: {count} attention values exceed the limit of {limit}: ask for fewer "
            "layers or heads, reduce over heads, use top_k, or raise REGARD_MAX_ATTENTION_VALUES"
        )
