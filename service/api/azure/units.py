"""Positions and lengths as Azure counts them: in UTF-16 code units."""

from collections.abc import Sequence
from itertools import accumulate, pairwise

from service.tasks.translation.sentences import TranslatedText
from service.text.characters import cleaned, origins
from service.text.segmentation import split_sentences


def units(text: str) -> Sequence[int]:
    """Returns the position of each code point, and the length of the text, in code units."""
    if not text or max(text) <= "\uffff":
        return range(len(text) + 1)
    return list(accumulate((1 + (char > "\uffff") for char in text), initial=0))


def projection(text: str, result: TranslatedText) -> str:
    """Returns the pairs of aligned words in Azure's format; the last places are inclusive."""
    source, target = units(text), units(result.text)
    spans = [
        (each.source_words[s], each.target_words[t])
        for each in result.alignments or ()
        for s, t, _ in each.pairs
    ]
    return " ".join(
        f"{source[a]}:{source[b] - 1}-{target[c]}:{target[d] - 1}"
        for (a, b), (c, d) in sorted(spans)
    )


def sentence_lengths(text: str, result: TranslatedText) -> tuple[list[int], list[int]]:
    """Returns the lengths of the sentences of a text, and of their translations.

    A text with tags, or an ICU message, counts as one sentence.
    """
    plain, parts = cleaned(text), result.parts()
    ends = [*accumulate(part.source_length() for part in parts)]
    if len(parts) == 1 or ends[-1] != len(plain):
        return [units(text)[-1]], [units(result.text)[-1]]
    if plain != text:
        places = [end for _, end in origins(text)]
        ends = [*(places[end - 1] for end in ends[:-1]), len(text)]
    for part in parts:
        part.assemble()
    translated = [*accumulate(len(part.text) for part in parts)]
    return lengths(text, ends), lengths(result.text, translated)


def broken(text: str, language: str) -> list[int]:
    """Returns the lengths of the sentences of a text that is not translated."""
    segments = split_sentences(text, language)
    starts = segments.starts(segments.sentences)
    return lengths(text, [*starts[1:], len(text)])


def lengths(text: str, ends: Sequence[int]) -> list[int]:
    places = units(text)
    return [places[end] - places[start] for start, end in pairwise([0, *ends])]
