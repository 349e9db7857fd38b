"""Aligns words and places inline tags in translations, by the attention between tokens."""

import re
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from model.tokenization.tokenizer import Span, TokenizedText
from service.tasks.alignment.aligner import PairAligner, TranslatedPair
from service.tasks.alignment.alignment import align, between_words, in_text, moved, text_span
from service.tasks.context import RequestContext
from service.tasks.threads import run_sized
from service.tasks.translation.sentences import Sentence, TranslatedText, num_chars, total_chars
from service.text.segmentation import Segments
from service.text.tags import Tag, WordAttention, insert, place_tags

PART = re.compile(r"\w+|[^\w\s]")


async def align_words(
    texts: Sequence[TranslatedText], aligner: PairAligner, context: RequestContext, deadline: float
) -> None:
    """Aligns the words of sentences with their best translations; stores `alignments` in texts.

    The texts have no tags and no protected spans.
    """
    size = total_chars(texts)

    def pairs_of() -> list[list[TranslatedPair]]:
        return [[each.pair(each.result.value[0]) for each in text.sentences] for text in texts]

    pairs = await run_sized(size, deadline, pairs_of)
    await aligner.attend([pair for of_text in pairs for pair in of_text], context)

    def align_all() -> None:
        for text, of_text in zip(texts, pairs, strict=True):
            segments = Segments(text.separators, ())
            starts = segments.starts([each.source.text for each in of_text])
            target_starts = segments.starts([each.target.text for each in of_text])
            text.alignments = []
            for each, *places in zip(of_text, starts, target_starts, strict=True):
                found = in_text(align(*each.attention), each.source, each.target)
                text.alignments.append(moved(found, *places))

    await run_sized(size, deadline, align_all)


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
