"""Splits a text into sentences for translation and joins the translations again.

The model does not see separators: line breaks and white space, and also punctuation, numbers and
emoji that stand alone. The text equals `separators[0] + sentences[0] + separators[1] + ...`.

Sentence boundaries come from `sentencex`. If it gets several lines at once, it merges them, and
drops a paragraph break at the end. Where line breaks end sentences, this module therefore passes
one line at a time to it.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from sentencex import get_sentence_boundaries

from service.text.letters import BREAK, has_letters, has_words, split_margins

# The time of `sentencex` grows with the square of the number of sentences in a line. A line of
# 16,000 Chinese sentences (48,000 characters) took 0.8 s as a whole, and 0.06 s in windows of this
# length.
WINDOW_CHARS = 2_000

_AFTER_BREAK = re.compile(f"(?<={BREAK})")
_SPACES = dict.fromkeys(map(ord, "\r\n\v\f\x1c\x1d\x1e\x85\u2028\u2029"), " ")

# `sentencex` 1.0.32 assumes that a space between a letter and a full stop, as in "B .", has one
# byte. It panics on a space of several bytes (no-break space, ideographic space). It also fails on
# a lone surrogate. One plain space therefore replaces each surrogate and each white-space character
# that is not a plain space. `sentencex` counts code points, so all positions stay the same.
_UNSAFE = re.compile(r"[^\S ]|[\ud800-\udfff]")


# Largest length of a sentence that is searched for a repeated phrase.
MAX_REPEATED_CHARS = 80

# A phrase of one to three words that is repeated, so that there are four words or more. Typographic
# quotes and dashes are left out, because their style is that of a whole sentence. So is the English
# `I`, which has a capital letter in the middle of a sentence too.
_WORD = r"[^\W\d_]++(?:['’.-][^\W\d_]++)*+"
_REPEATED = re.compile(
    rf"(?=.{{1,{MAX_REPEATED_CHARS}}}\Z)(?=(?:\W*+{_WORD}){{4}})"
    rf"[(\[¡¿]*+(?!(?-i:I)\b)(?P<phrase>{_WORD}(?:,? {_WORD}){{0,2}}?)"
    r"(?:[,;.!?…]{0,3} (?P=phrase)(?!\w))++[,;.:!?…)\]]*+",
    re.IGNORECASE | re.DOTALL,
)

# Abbreviations before a name or a number that `sentencex` takes for the end of a sentence.
_ABBREVIATIONS = {
    "en": re.compile(r"(?<!\w)(?:[Vv]ols?|[Cc]hs?|[Ee]qs?|Ft|Ste|[Aa]pprox)\.$"),
    "pt": re.compile(
        r"(?<![\w.])(?:sécs?|caps?|vols?|págs?|arts?|tít|fls?|av|sto|sta|pe|gov|cel|ten|sarg|dep|arq"
        r"|mons|ilm[oa]|exm[oa]|aprox|tel|proc)\.$",
        re.IGNORECASE,
    ),
}
_ABBREVIATION_CHARS = 10

# Marks that separate texts, such as the items of a menu, if there are spaces around them.
BARS = "|│•·"
_STARTS = re.compile(r"[^\W_]")

# A column of a line, with the tabs after it.
_CELL = re.compile(r"[^\t]+\t*|\t+")


@dataclass(slots=True)
class Segments:
    """A text as sentences to translate and separators to keep."""

    separators: tuple[str, ...]  # text before, between and after the sentences
    sentences: tuple[str, ...]  # without surrounding white space; each has a letter or a digit

    def join(self, translations: Sequence[str]) -> str:
        """Joins translations, one for each sentence in order, with the separators."""
        parts = [self.separators[0]]
        for translation, separator in zip(translations, self.separators[1:], strict=True):
            parts += (translation, separator)
        return "".join(parts)

    def starts(self, sentences: Sequence[str]) -> list[int]:
        """Returns the position of each sentence in the text that `join` returns for `sentences`."""
        starts, at = [], 0
        for gap, sentence in zip(self.separators, sentences, strict=False):
            starts.append(at + len(gap))
            at = starts[-1] + len(sentence)
        return starts

    def divided(self, parts_of: Callable[[str], Sequence[str]]) -> "Segments":
        """Replaces each sentence by its parts: a separator, a sentence, a separator, and so on."""
        parts = [self.separators[0]]
        for sentence, separator in zip(self.sentences, self.separators[1:], strict=True):
            first, *others = parts_of(sentence)
            parts[-1] += first
            parts += others
            parts[-1] += separator
        return Segments(tuple(parts[::2]), tuple(parts[1::2]))


def split_sentences(
    text: str, language: str, at_line_breaks: bool = True, bars: str = BARS
) -> Segments:
    """Splits a text into sentences and separators. An unknown language has the rules for English.

    Line breaks are those of `str.splitlines`. A tab ends a sentence if a line break does. So does a
    bar with spaces between texts that begin with capital letters: `Home | About us`. White space
    around a sentence belongs to a separator, and so does text without a letter ("...", "🎉",
    "12."). But a text that is not split at all is one sentence even if it has digits and no
    letters.

    Args:
        at_line_breaks: Whether every line break ends a sentence. If false, only BREAK does, and
            every other line break is white space.
        bars: Characters that are bars, or stand for them.
    """
    lines = text.splitlines(keepends=True) if at_line_breaks else _AFTER_BREAK.split(text)
    if at_line_breaks and "\t" in text:
        lines = [cell for line in lines for cell in _CELL.findall(line)]
    if not {*bars}.isdisjoint(text):
        bar = re.compile(rf"(?<=\S)(\s+[{bars}]\s+)(?=\S)")
        lines = [cell for line in lines for cell in _between_bars(line, bar)]
    pieces = _pieces(lines, language.partition("-")[0])
    return one_sentence(text) if len(pieces) == 1 else _segments(pieces)


def _between_bars(line: str, bar: re.Pattern[str]) -> Sequence[str]:
    """Returns the texts between bars, and the bars; the whole line if a text has a small start."""
    cells = bar.split(line)
    starts = [_STARTS.search(cell) for cell in cells[::2]]
    return cells if all(start and not start[0].islower() for start in starts) else (line,)


def whole_blocks(text: str) -> Segments:
    """Returns each part with a letter as one sentence. The parts end at BREAK."""
    return _segments(_AFTER_BREAK.split(text))


def split_repeated(segments: Segments) -> Segments:
    """Makes each phrase of a sentence that only repeats it a sentence: `Thank you, thank you!`.

    Models have seen few such sentences. They lose a phrase, or add words.
    """
    if not any(map(_REPEATED.fullmatch, segments.sentences)):
        return segments

    def phrases(sentence: str) -> Sequence[str]:
        if not (found := _REPEATED.fullmatch(sentence)):
            return "", sentence, ""
        phrase = rf"({re.escape(found['phrase'])})(?!\w)"
        return re.split(phrase, sentence, flags=re.IGNORECASE)

    return segments.divided(phrases)


def in_one_line(segments: Segments) -> Segments:
    """Returns a text whose sentences have a space in place of each line break.

    The separators keep their line breaks.
    """
    sentences = tuple(sentence.translate(_SPACES) for sentence in segments.sentences)
    return Segments(segments.separators, sentences)


def in_paragraphs(segments: Segments, max_chars: int) -> Segments:
    """Joins sentences with only spaces between them, up to a number of characters."""
    separators, sentences = [segments.separators[0]], list[str]()
    for sentence, separator in zip(segments.sentences, segments.separators[1:], strict=True):
        joined = f"{sentences[-1]}{separators[-1]}{sentence}" if sentences else ""
        if 0 < len(joined) <= max_chars and not separators[-1].strip(" "):
            sentences[-1], separators[-1] = joined, separator
        else:
            sentences.append(sentence)
            separators.append(separator)
    return Segments(tuple(separators), tuple(sentences))


def _segments(pieces: Iterable[str]) -> Segments:
    separators: list[str] = []
    sentences: list[str] = []
    gap: list[str] = []
    for piece in pieces:
        if not has_letters(piece):
            gap.append(piece)
            continue
        before, sentence, after = split_margins(piece)
        separators.append("".join([*gap, before]))
        sentences.append(sentence)
        gap = [after]
    separators.append("".join(gap))
    return Segments(tuple(separators), tuple(sentences))


def one_sentence(text: str) -> Segments:
    """Returns a text as one sentence; a text without a letter or digit as one separator."""
    if not has_words(text):
        return Segments((text,), ())
    before, sentence, after = split_margins(text)
    return Segments((before, after), (sentence,))


def _pieces(lines: Iterable[str], language: str) -> list[str]:
    pieces = []
    for line in lines:
        start = 0
        if has_words(line):
            # Printable characters are safe. The test takes a tenth of the time of a replacement.
            safe = line if line.isprintable() else _UNSAFE.sub(" ", line)
            for end in _sentence_ends(safe, language):
                pieces.append(line[start:end])
                start = end
        if start < len(line):
            pieces.append(line[start:])
    return pieces


def _is_abbreviation(text: str, language: str) -> bool:
    pattern = _ABBREVIATIONS.get(language)
    return pattern is not None and pattern.search(text) is not None


def _sentence_ends(line: str, language: str) -> list[int]:
    """Returns the end of each sentence of a line as a character index, in rising order.

    The line is read in windows. The last sentence of a window may be cut, so the next window starts
    where that sentence starts. A sentence that is longer than a window stays whole. The window
    after it starts behind the last space, so that no abbreviation is cut.
    """
    ends: list[int] = []
    start = 0
    while start < len(line):
        window = line[start : start + WINDOW_CHARS]
        num_before = len(ends)
        for boundary in get_sentence_boundaries(language, window):
            end = boundary["end_index"]
            before = window[max(0, end - _ABBREVIATION_CHARS) : end].rstrip()
            is_ordinal = window[end : end + 1] in ("º", "ª")  # `1.ª`
            if end == len(window) or not (is_ordinal or _is_abbreviation(before, language)):
                ends.append(start + end)
        if start + len(window) < len(line) and len(ends) > num_before:
            ends.pop()
        start = ends[-1] if ends[num_before:] else start + (window.rfind(" ") + 1 or len(window))
    return ends
