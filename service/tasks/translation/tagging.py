"""Puts inline tags back into translations, with the attention between words as a guide."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from model.tokenization.tokenizer import Span, TokenizedText
from service.items.result import Result
from service.tasks.alignment.aligner import CrossAttention, PairAligner, TranslatedPair
from service.tasks.alignment.alignment import between_words, text_span
from service.tasks.context import RequestContext
from service.tasks.threads import run_sized
from service.tasks.translation.prepared import Prepared
from service.text.tags import Tag, WordAttention, insert, place_tags

PART = re.compile(r"\w+|[^\w\s]")


@dataclass(frozen=True, slots=True)
class TaggedPair:
    """A sentence with tags, and one of its translations.

    Attributes:
        text: The text that the sentence is in.
        index: Index of the sentence in the text.
        rank: Rank of the translation; 0 is the best.
        translated: The sentence as the model reads it, without tags, and the translation.
    """

    text: Prepared
    index: int
    rank: int
    translated: TranslatedPair

    def insert_tags(self, cross: CrossAttention) -> str:
        """Returns the translation with its tags."""
        source, target = self.translated.pair.source, self.translated.pair.target
        source_words, target_words, weights = between_words(
            cross.weights, source, target, cross.shift
        )
        source_parts, columns = _parts(source, source_words)
        target_parts, rows = _parts(target, target_words)
        parts_of_words = np.bincount(columns)[columns].astype(np.float32)
        shares: NDArray[np.float32] = weights[np.ix_(rows, columns)] / parts_of_words
        words = WordAttention(source.text, target.text, source_parts, target_parts, shares)
        placed = place_tags(self._tags(), words)
        if carrier := self.text.carriage.carriers.get(self.index):
            places = carrier.behind(target.text, [place for place, _ in placed])
            placed = [*zip(places, (marker for _, marker in placed), strict=True)]
        return insert(target.text, placed)

    def _tags(self) -> list[Tag]:
        """Returns the tags with their places in the sentence as the model reads it.

        The places differ from those in `text.tags` if stand-ins replace protected spans. A stand-in
        is a short word that the model copies.
        """
        tags = self.text.tags[self.index]
        carrier = self.text.carriage.carriers.get(self.index)
        if carrier is None:
            return tags
        length = len(self.text.segments.sentences[self.index])
        return [
            replace(
                tag,
                place=carrier.place(tag.place),
                partner=carrier.place(tag.partner) if 0 <= tag.partner <= length else tag.partner,
            )
            for tag in tags
        ]


def _parts(side: TokenizedText, words: Sequence[Span]) -> tuple[list[Span], list[int]]:
    """Cuts punctuation marks off words: the word "2009." has the parts "2009" and ".".

    A part is a run of letters and digits, or one mark.

    Returns:
        The span of each part in the text, and the index of its word.
    """
    spans, indices = [], []
    for index, word in enumerate(words):
        first, last = text_span(side, word)
        for part in PART.finditer(side.text, first, last):
            spans.append(part.span())
            indices.append(index)
    return spans, indices


async def insert_tags(
    prepared: Sequence[Prepared],
    results: Sequence[Result],
    aligner: PairAligner,
    context: RequestContext,
    deadline: float,
) -> None:
    """Puts tags into the translations of sentences, and stores these translations in `prepared`.

    Args:
        prepared: The texts.
        results: Results of the sentences of all texts, in order.
        aligner: Finds the attention between the tokens of sentences and translations.
        context: Context of the request.
        deadline: Time by time.perf_counter at which the request fails.
    """
    size = sum(len(text.segments.sentences[index]) for text in prepared for index in text.tags)
    pairs = await run_sized(size, deadline, lambda: list(_pairs(prepared, results)))
    found = await aligner.attention([tagged.translated for tagged in pairs], context)

    def insert_all() -> None:
        for tagged, cross in zip(pairs, found, strict=True):
            tagged.text.tagged[tagged.index, tagged.rank] = tagged.insert_tags(cross)

    await run_sized(size, deadline, insert_all)


def _pairs(prepared: Sequence[Prepared], results: Sequence[Result]) -> Iterator[TaggedPair]:
    """Yields the translations of the sentences that have tags and were translated as a whole."""
    start = 0
    for text in prepared:
        for index in text.tags.keys() - text.carriage.parts.keys():
            for rank, hypothesis in enumerate(results[start + index].value):
                yield TaggedPair(text, index, rank, text.pair(index, hypothesis))
        start += len(text.sources)
