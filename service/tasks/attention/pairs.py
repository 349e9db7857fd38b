"""Sentences beside their translations, and what a worker has found out about them."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import cast

from model.inspection.query import AttentionMaps, AttentionQuery, Reduction
from model.tokenization.tokenizer import TokenizedText
from service.items.result import Result
from service.tasks.attention.alignment import Alignment, align, in_text
from service.tasks.attention.matrices import Attention, AttentionItem, show
from service.tasks.attention.query import Aligner
from service.tasks.attention.requests import View
from service.tasks.translation import TranslatedText

HEADS = {
    Reduction.MEAN_HEADS: "mean",
    Reduction.MEAN_LAYERS_HEADS: "mean",
    Reduction.MAX_HEADS: "max",
    Reduction.ROLLOUT: "rollout",
}
"""What stands for the heads where they are taken together."""


@dataclass(frozen=True, slots=True)
class Pair:
    """A sentence and its translation, token by token."""

    source: TokenizedText
    target: TokenizedText

    @property
    def ids(self) -> tuple[list[int], list[int]]:
        """Of both."""
        return self.source.ids, self.target.ids

    @property
    def lengths(self) -> tuple[int, int]:
        """Tokens of both."""
        return len(self.source.ids), len(self.target.ids)


def maps_size(shown: Result) -> int:
    """How many values there are of what was asked for."""
    maps = cast("AttentionMaps", shown.value[0])
    return sum(values.size for values in maps.values())


def assemble(
    pairs: list[Pair],
    shown: list[Result],
    asked: tuple[AttentionQuery, Aligner],
    start: str,
    view: View,
) -> list[AttentionItem]:
    """Numbers beside what they are about, as a client wants to see them.

    Args:
        pairs: Sentences.
        shown: The two answers about each.
        asked: The two questions.
        start: What the decoder starts from, for people.
        view: What is wanted.
    """
    query, aligner = asked
    items = []
    for pair, each in zip(pairs, shown, strict=True):
        maps, cross = each.value
        alignment = aligned(pair, cross, aligner)
        found = attentions(query, maps)
        items.append(show(pair.source, pair.target, start, found, alignment, view))
    return items


def aligned(pair: Pair, cross: AttentionMaps, aligner: Aligner) -> Alignment:
    """The words of a pair, aligned by the answer to an aligner's question."""
    (weights,) = cross.values()  # (1, 1, T, S)
    return align(weights[0, 0], pair.source, pair.target, aligner.shift)


def attentions(query: AttentionQuery, maps: AttentionMaps) -> list[Attention]:
    """The answer, with the names that a client knows."""
    return [
        Attention(
            kind=kind.value,
            layers=list(query.layers[kind]),
            heads=HEADS.get(query.reduce, list(query.heads)),
            reduce=query.reduce.value,
            norm=query.norm.value,
            data=values,
        )
        for kind, values in maps.items()
    ]


def model_name(translation: TranslatedText) -> str:
    """Of the model that translated; "" where there was nothing to do."""
    route = translation.prepared.route
    return route[0].name if route else ""


def pairs_of(translation: TranslatedText) -> list[Pair]:
    """The sentences of a text beside their translations."""
    prepared = translation.prepared
    if not prepared.route:
        return []
    source, target = prepared.tokenizers
    return [
        Pair(source.tokenize(sentence), target.detokenize(ids))
        for sentence, ids in zip(prepared.segments.sentences, translation.targets, strict=True)
    ]


def align_text(
    translation: TranslatedText, pairs: list[Pair], shown: Iterator[Result], aligner: Aligner | None
) -> list[Alignment]:
    """The alignment of each sentence, with words in code points of both texts.

    Args:
        translation: The text.
        pairs: Its sentences, from `pairs_of`.
        shown: The answers about them, and whatever follows.
        aligner: What was asked; None where there are no pairs.
    """
    if aligner is None:
        return []
    segments = translation.prepared.segments
    starts = zip(
        segments.starts(segments.sentences),
        segments.starts([pair.target.text for pair in pairs]),
        strict=True,
    )
    return [
        in_text(aligned(pair, next(shown).value[0], aligner), pair.source, pair.target, start)
        for pair, start in zip(pairs, starts, strict=True)
    ]
