"""Splits a text into sentences for translation, and puts the translations back.

A translation model takes one sentence at a time. Everything that is not a sentence (line breaks,
white space around sentences, runs of punctuation or emoji) is kept here, character for character,
and never reaches the model: `separators[0] + sentences[0] + separators[1] + ...` is always the
text itself.

Sentence boundaries come from `sentencex`, which has rules for about 300 languages. It is given one
line at a time, because it merges single lines and drops a paragraph break at the end of a text.
A sentence that is too long for a model is not cut here.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from sentencex import get_sentence_boundaries

# The time of `sentencex` grows with the square of the number of sentences in a line: 16,000 Chinese
# sentences (48,000 characters) took 0.8 s in one piece, 0.06 s through windows of this size.
WINDOW_CHARS = 2_000

_LETTER_OR_DIGIT = re.compile(r"[^\W_]")

# `sentencex` 1.0.32 steps one byte back over the white space in "B ." and panics if that is wider
# (no-break space, ideographic space). It cannot read a lone surrogate either. Both are shown to it
# as a plain space: one character for one, so its indices, which count code points, still hold.
_UNSAFE = re.compile(r"[^\S ]|[\ud800-\udfff]")


@dataclass(slots=True)
class Segments:
    """A text taken apart into what is translated and what is kept.

    Attributes:
        separators: The text before, between and after the sentences: one more than there are
            sentences, empty where two sentences touch.
        sentences: The sentences in order, without white space around them. Each holds a letter or
            a digit.
    """

    separators: tuple[str, ...]
    sentences: tuple[str, ...]

    def join(self, translations: Sequence[str]) -> str:
        """Put translations in the places of the sentences.

        Args:
            translations: One for each sentence, in the same order.

        Returns:
            The translated text, with the white space and symbols that the source text had.

        Raises:
            ValueError: The number of translations is not the number of sentences.
        """
        if len(translations) != len(self.sentences):
            raise ValueError(
                f"got {len(translations)} translations for {len(self.sentences)} sentences; "
                "pass exactly one for each sentence, in order"
            )
        parts = [self.separators[0]]
        for translation, separator in zip(translations, self.separators[1:], strict=True):
            parts += (translation, separator)
        return "".join(parts)

    def starts(self, sentences: Sequence[str]) -> list[int]:
        """Where each sentence begins in the text that `join` makes of them."""
        lengths = map(len, sentences)
        gaps = map(len, self.separators)
        starts, at = [], 0
        for gap, length in zip(gaps, lengths, strict=False):  # there is one more separator
            starts.append(at + gap)
            at += gap + length
        return starts


def split_sentences(text: str, language: str) -> Segments:
    """Take a text apart into sentences and the separators around them.

    Every line break ends a sentence (CR, LF, CRLF, VT, FF, FS, GS, RS, NEL, LS and PS, as in
    `str.splitlines`). White space around a sentence, in the sense of `str.isspace`, is part of a
    separator; white space inside a sentence stays there. A stretch with no letter or digit ("...",
    "🎉", "---") is part of a separator too.

    Args:
        text: Any text. Lone surrogates are kept as they are.
        language: ISO 639-1 code of the text, with or without a region. A language that
            `sentencex` does not know is split by its rules for English.

    Raises:
        UnicodeEncodeError: The language code (never the text) has a lone surrogate. A `ValueError`.
    """
    pieces = list(_pieces(text, language.partition("-")[0]))
    if len(pieces) == 1:
        return one_sentence(text)
    separators: list[str] = []
    sentences: list[str] = []
    gap: list[str] = []
    for piece in pieces:
        if _LETTER_OR_DIGIT.search(piece) is None:
            gap.append(piece)
            continue
        sentence = piece.strip()
        start = len(piece) - len(piece.lstrip())
        separators.append("".join([*gap, piece[:start]]))
        sentences.append(sentence)
        gap = [piece[start + len(sentence) :]]
    separators.append("".join(gap))
    return Segments(tuple(separators), tuple(sentences))


def one_sentence(text: str) -> Segments:
    """Take a text as one sentence, with the white space around it as separators.

    A text with no letter or digit in it is one separator, as in `split_sentences`.
    """
    if _LETTER_OR_DIGIT.search(text) is None:
        return Segments((text,), ())
    sentence = text.strip()
    start = len(text) - len(text.lstrip())
    return Segments((text[:start], text[start + len(sentence) :]), (sentence,))


def _pieces(text: str, language: str) -> Iterator[str]:
    """Cut a text at line breaks and sentence ends; joined, the pieces are the text."""
    for line in text.splitlines(keepends=True):
        start = 0
        if _LETTER_OR_DIGIT.search(line) is not None:
            for end in _sentence_ends(_UNSAFE.sub(" ", line), language):
                yield line[start:end]
                start = end
        if start < len(line):
            yield line[start:]


def _sentence_ends(line: str, language: str) -> Iterator[int]:
    """Where the sentences of a line end, in characters, rising.

    A sentence that the window cut is read again from its start. One that is longer than the window
    stays whole: the next window goes on at a space inside it, so that no abbreviation is cut.
    """
    start = 0
    while start < len(line):
        window = line[start : start + WINDOW_CHARS]
        ends = [boundary["end_index"] for boundary in get_sentence_boundaries(language, window)]
        if start + len(window) < len(line):
            ends = ends[:-1]
        yield from (start + end for end in ends)
        start += ends[-1] if ends else (window.rfind(" ") + 1 or len(window))
