"""Aligns words and places inline tags in translations, by the attention between tokens."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from os.path import commonprefix

import numpy as np
from numpy.typing import NDArray

from model.tokenization.tokenizer import Span, TokenizedText
from service.tasks.alignment.aligner import PairAligner, TranslatedPair
from service.tasks.alignment.alignment import (
    Alignment,
    alignment_of,
    between_words,
    merge,
    moved,
    text_span,
)
from service.tasks.context import RequestContext
from service.tasks.threads import run_sized
from service.tasks.translation.messages import TranslatedMessage
from service.tasks.translation.sentences import Sentence, TranslatedText, num_chars, total_chars
from service.text.carriage import split_at_markers
from service.text.protection import MARKER
from service.text.tags import Tag, WordAttention, insert, place_tags
from service.text.typography import plain

PART = re.compile(r"\w+|[^\w\s]")


async def align_words(
    texts: Sequence[TranslatedText], aligner: PairAligner, context: RequestContext, deadline: float
) -> None:
    """Aligns the words of sentences with their best translations; stores `alignments` in texts.

    The texts have no tags. A protected span is one word. The words count code points from the
    start of each text, as the models get it. Messages are left out.
    """
    texts = [text for text in texts if not isinstance(text, TranslatedMessage)]
    size = total_chars(texts)

    def pairs_of() -> list[tuple[Sentence, TranslatedPair]]:
        sentences = [each for text in texts for each in text.sentences if each.in_parts is None]
        return [(each, each.pair(each.result.value[0])) for each in sentences]

    pairs = await run_sized(size, deadline, pairs_of)
    await aligner.attend([pair for _, pair in pairs], context)

    def align_all() -> None:
        of_sentence = dict(pairs)
        for text in texts:
            text.alignments = []
            restore = text.protected.restore
            places = [len(restore(text.separators[0]))] * 2
            for sentence, separator in zip(text.sentences, text.separators[1:], strict=True):
                source, target = sentence.source, sentence.translation(0)
                assert target is not None  # `fidelity.complete` has made sure
                pair = of_sentence.get(sentence)
                if pair is None:
                    found = _spans_alone(sentence, target)
                else:
                    found = _in_place(sentence, pair, target)
                text.alignments.append(moved(found, *places))
                gap = len(restore(separator))
                places = [
                    place + len(restore(each)) + gap
                    for place, each in zip(places, (source, target), strict=True)
                ]

    await run_sized(size, deadline, align_all)


def _in_place(sentence: Sentence, pair: TranslatedPair, translation: str) -> Alignment:
    """Returns the alignment of a sentence, in code points of it and of its final translation."""
    source_words, target_words, weights = between_words(*pair.attention)
    source = _words(sentence, pair.source, sentence.source, source_words)
    target = _words(sentence, pair.target, translation, target_words)
    if not (source.groups and target.groups):
        return alignment_of([], [], weights[:0, :0])
    merged = merge(weights, target.groups, source.groups)
    columns = {marker: column for column, marker in enumerate(source.markers) if marker}
    for row, marker in enumerate(target.markers):
        if marker in columns:
            merged[row] = 0.0
            merged[row, columns[marker]] = 1.0
    kept = np.ix_(target.is_kept, source.is_kept)
    return alignment_of(source.kept(), target.kept(), merged[kept])


def _spans_alone(sentence: Sentence, translation: str) -> Alignment:
    """Returns the alignment of a sentence that was translated in parts.

    There is no attention between the parts, so only the protected spans are aligned.
    """
    found = [_places(sentence, text) for text in (sentence.source, translation)]
    columns = {marker: column for column, marker in enumerate(found[0])}
    weights = np.zeros((len(found[1]), len(found[0])), np.float32)
    for row, marker in enumerate(found[1]):
        weights[row, columns[marker]] = 1.0
    return alignment_of([*found[0].values()], [*found[1].values()], weights)


def _places(sentence: Sentence, text: str) -> dict[str, Span]:
    """Returns the place of each protected span, by its marker, in a text with markers."""
    places = {}
    end = 0
    for part in split_at_markers(text):
        start, end = end, end + len(sentence.text.protected.restore(part))
        if MARKER.match(part):
            places[part] = (start, end)
    return places


@dataclass(slots=True)
class _Words:
    """The words that a model read or wrote, and their places in the final text."""

    # Words that the final text joins, [first, end). All stand-ins of one span are joined.
    groups: list[Span]
    spans: list[Span]  # of each group in code points; empty if the final text does not have it
    markers: list[str]  # of the protected span that each group is; "" for another word

    @property
    def is_kept(self) -> list[bool]:
        return [first < last for first, last in self.spans]

    def kept(self) -> list[Span]:
        return [(first, last) for first, last in self.spans if first < last]


def _words(sentence: Sentence, side: TokenizedText, final: str, words: Sequence[Span]) -> _Words:
    """Finds the words of a side in the final text, which has markers for the stand-ins."""
    places, markers = _final_places(sentence, side.text, final)
    found = _Words([], [], [])
    for number, word in enumerate(words):
        first, last = text_span(side, word)
        marker = next(filter(None, markers[first:last]), "")  # a token may be `1.` of `XYZ1.`
        own = zip(places[first:last], markers[first:last], strict=True)
        inside = [span for span, each in own if span[0] < span[1] and each == marker]
        start = min((span[0] for span in inside), default=0)
        end = max((span[1] for span in inside), default=0)
        if found.spans and start < found.spans[-1][1] and end:
            found.groups[-1] = found.groups[-1][0], number + 1
            found.spans[-1] = found.spans[-1][0], max(end, found.spans[-1][1])
            found.markers[-1] = found.markers[-1] or marker
        else:
            found.groups.append((number, number + 1))
            found.spans.append((start, end))
            found.markers.append(marker)
    return found


def _final_places(sentence: Sentence, text: str, final: str) -> tuple[list[Span], list[str]]:
    """Returns the place in the final text, and the marker, of each character of a model's text."""
    stand_ins = sentence.carrier.stand_ins_in(text) if sentence.carrier else []
    places: list[Span] = []
    markers: list[str] = []
    start = end = 0
    parts = re.split(f"({MARKER.pattern})", final)
    edges = [0, *(edge for span in stand_ins for edge in span), len(text)]
    for index, ((first, last), part) in enumerate(zip(pairwise(edges), parts, strict=True)):
        start, end = end, end + len(sentence.text.protected.restore(part))
        is_span = index % 2 == 1
        markers += [part if is_span else ""] * (last - first)
        if is_span:
            places += [(start, end)] * (last - first)
        else:
            places += [(start + a, start + b) for a, b in _edited(text[first:last], part)]
    return places, markers


def _edited(before: str, after: str) -> list[Span]:
    """Returns the place in a changed text of each character that the text had before.

    The case, the typography, and one run of characters, may have changed. All characters of this
    run have the place of the run that replaces them.
    """
    before, after = plain(before), plain(after)
    one, other = ([*map(str.lower, text)] for text in (before, after))
    head = len(commonprefix([one, other]))
    tail = len(commonprefix([one[head:][::-1], other[head:][::-1]]))
    changed = (head, len(after) - tail)
    return [
        *((place, place + 1) for place in range(head)),
        *[changed] * (len(before) - head - tail),
        *((place, place + 1) for place in range(changed[1], len(after))),
    ]


async def insert_tags(
    sentences: Sequence[Sentence], aligner: PairAligner, context: RequestContext, deadline: float
) -> None:
    """Puts tags into the translations of sentences that have some, by the attention of words."""
    sentences = [each for each in sentences if each.tags and each.in_parts is None]
    size = num_chars(sentences)

    def pairs_of() -> list[tuple[Sentence, int, TranslatedPair]]:
        return [
            (sentence, rank, sentence.pair(hypothesis))
            for sentence in sentences
            for rank, hypothesis in enumerate(sentence.result.value)
        ]

    pairs = await run_sized(size, deadline, pairs_of)
    await aligner.attend([pair for _, _, pair in pairs], context)

    def insert_all() -> None:
        for sentence, rank, pair in pairs:
            sentence.decoded[rank] = _with_tags(sentence, pair)

    await run_sized(size, deadline, insert_all)


def _with_tags(sentence: Sentence, pair: TranslatedPair) -> str:
    source, target = pair.source, pair.target
    source_words, target_words, weights = between_words(*pair.attention)
    source_parts, columns = _parts(source, source_words)
    target_parts, rows = _parts(target, target_words)
    parts_of_words = np.bincount(columns)[columns].astype(np.float32)
    shares: NDArray[np.float32] = weights[np.ix_(rows, columns)] / parts_of_words
    words = WordAttention(source.text, target.text, source_parts, target_parts, shares)
    placed = place_tags(_tags(sentence), words)
    if sentence.carrier:
        places = sentence.carrier.behind(target.text, [place for place, _ in placed])
        placed = [*zip(places, (marker for _, marker in placed), strict=True)]
    return insert(target.text, placed)


def _tags(sentence: Sentence) -> Sequence[Tag]:
    """Returns the tags with their places in the sentence as the model reads it.

    The places differ from those in the sentence if stand-ins replace protected spans.
    """
    carrier, length = sentence.carrier, len(sentence.source)
    if carrier is None:
        return sentence.tags
    return [
        replace(
            tag,
            place=carrier.place(tag.place),
            partner=carrier.place(tag.partner) if 0 <= tag.partner <= length else tag.partner,
        )
        for tag in sentence.tags
    ]


def _parts(side: TokenizedText, words: Sequence[Span]) -> tuple[list[Span], list[int]]:
    """Cuts punctuation marks off words: the word "2009." has the parts "2009" and ".".

    Returns the span of each part in the text, and the index of its word.
    """
    spans, indices = [], []
    for index, word in enumerate(words):
        for part in PART.finditer(side.text, *text_span(side, word)):
            spans.append(part.span())
            indices.append(index)
    return spans, indices
