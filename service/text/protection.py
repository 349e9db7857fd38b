"""Protects the parts of a text that a model would damage: placeholders, URLs, markup, symbols.

Each such span is replaced by one marker, a private-use character, before the text is split into
sentences. A span has a certain syntax (`{name}`, `%s`, `https://...`, an amount, an emoji), or a
character that the model's vocabulary does not have. `carriage.py` carries the spans through the
model.
"""

import re
import unicodedata
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Self

from service.text import values
from service.text.code_syntaxes import CODE, WORDS
from service.text.letters import UNSPACED, Span, has_words
from service.text.signs import JOINERS, SIGNS, has_signs
from service.text.syntaxes import MARKUP, compiled
from service.text.typography import DASHES, Typography, folded

FIRST_MARKER = 0xF0000
# Largest number of spans of a text. Each needs a private-use character from FIRST_MARKER on.
MAX_SPANS = 0x10FFFD - FIRST_MARKER

MARKER = re.compile("[\U000f0000-\U0010fffd]")

_SYNTAXES = compiled((*MARKUP, *CODE))

# A text without a match and without one of WORDS has no syntax. `_SYNTAXES` takes ten times as
# long. The marks of ordinary sentences count only beside certain characters.
_RARE = r"{$#@<[\]~\\&`=^¯|+*>_→⇒↔≠≤≥≈∈×÷±·∪∩∧∨⊂⊆⌘⌥⇧⌃⌤⎋⇥⌫⏎"
_MAY_HAVE_SYNTAX = re.compile(
    rf"[{_RARE}%.:;/!?(0-](?:(?<=[{_RARE}])|(?<=[:;/-])(?=\S)|(?<=\.)(?=[\w/]|\./|\.{{3}})"
    r"|(?<=!)(?=[=a-z])|(?<=\?)(?=[a-z+?.])|(?<=www\.)|(?<=%)(?<!\d%)|(?<=\w\()|(?<=0)[xX])"
)

# Marks of emphasis around words: `**bold**`. The words are translated.
_EMPHASIS = re.compile(
    r"(?<![\w*_~\\])(?P<mark>\*{1,3}|_{1,3}|~~)(?=[^\s*_~])(?:[^*_~\n]|(?<=\w)[*_](?=\w)){1,300}"
    r"(?<=[^\s*_~])(?P<end>(?P=mark))(?![\w*_~])"
)
_EMPHASIS_TRIGGER = re.compile(r"[*_~](?=[^\s*_~])")

_EMPHASIS_MARKS = frozenset("*_~")

_TAG = re.compile(r"[<\[](/?)([A-Za-z0-9][\w:-]*)(?:[\s=][^<>]*)?(?<!/)[>\]]")
_BRACKETS = {
    **{"{": "}", "<": ">", "<<": ">>", "[[": "]]"},
    **dict.fromkeys("\u2066\u2067\u2068", "\u2069"),
    **dict.fromkeys("\u202a\u202b\u202d\u202e", "\u202c"),
}

# In the search for unknown words, noncharacters replace unknown characters. Each stands for a kind:
# a letter, a sign that may join letters, a sign apart from letters, and one that only joins digits.
_LETTER, _JOINING, _APART, _BEFORE_DIGITS = "\uffff", "\ufdd0", "\ufdd1", "\ufdd2"
_KINDS = {**dict.fromkeys("{}>()[]«»‹›“”„‘’‚–—―…•·|¿¡", _APART), "<": _BEFORE_DIGITS}

# In a script without spaces, an unknown character is a span alone. Elsewhere, the letters and
# digits that touch an unknown letter belong to its span: `Erdoğan`. Digits that touch a sign do
# too: `€50`, `<3`. Letters do if they are on both sides of it: `don~t`.
_CHAR = rf"[^\W{UNSPACED}]"
_START = rf"(?<!{_CHAR})(?<!['-])"
_UNKNOWN_WORD = re.compile(
    rf"{_START}(?:{_CHAR}|['-])*{_LETTER}(?:{_CHAR}|[{_LETTER}{JOINERS}'-]|[.,](?=\d))*"
    rf"|{_START}{_CHAR}(?:{_CHAR}|['-])*(?:{_JOINING}+(?:{_CHAR}|['-])*{_CHAR})+"
    rf"|(?:(?<!\w)\d[\d.,]{{0,31}}(?={_JOINING}))?[{_JOINING}-{_BEFORE_DIGITS}]+[{JOINERS}]*"
    rf"(?:(?<=[{_JOINING}{_BEFORE_DIGITS}])\d(?:\w|[.,](?=\d))*)?"
)


@dataclass(frozen=True, slots=True)
class ProtectedText:
    """A text whose protected spans are replaced by markers.

    Marker n, chr(FIRST_MARKER + n), stands for spans[n].
    """

    text: str
    spans: tuple[str, ...]
    typography: Typography | None = None  # style of the source; None for the plain one
    # Maps the marker of a start tag, a bracket or a mark of emphasis to the marker of its end.
    pairs: Mapping[str, str] = field(default_factory=dict)

    def span(self, marker: str) -> str:
        return self.spans[ord(marker) - FIRST_MARKER]

    def markers(self, spans: Collection[str]) -> list[str]:
        """Returns the markers of some spans, in order."""
        return [chr(FIRST_MARKER + n) for n, span in enumerate(self.spans) if span in spans]

    def restore(self, text: str) -> str:
        if not self.spans:
            return text
        return MARKER.sub(lambda found: self.span(found[0]), text)

    def extended(self, spans: Sequence[str]) -> Self:
        """Returns a copy with more spans. The caller puts their markers into the sentences."""
        return replace(self, spans=(*self.spans, *spans))

    def may_move(self, marker: str) -> bool:
        """Returns whether a marker, such as that of an emoji, may move out of a sentence."""
        return not has_words(self.span(marker))

    def keeps_order(self, text: str) -> bool:
        """Returns whether each pair of markers has a text between them, and each `&` a letter."""
        for found in MARKER.finditer(text) if "&" in self.spans else ():
            if self.span(found[0]) == "&" and not text[found.end() :][:1].isalnum():
                return False
        if not self.pairs:
            return True
        places = {found[0]: found.start() for found in MARKER.finditer(text)}
        for first, place in places.items():
            last = places.get(self.pairs.get(first, ""))
            if last is not None and not text[place + 1 : last].strip():
                return False
        return True


NO_SPANS = ProtectedText("", ())


UnknownSpans = Callable[[str], Sequence[Span]]
"""Returns the spans of a text that a model would read as unknown tokens."""


def all_known(text: str) -> Sequence[Span]:
    return ()


class Marking:
    """Replaces spans of a text, or of several parts of a text, by markers.

    `protect` adds no span once there are `limit` spans.
    """

    def __init__(self, unknown: UnknownSpans, keeps_length: bool = False) -> None:
        self.spans: list[str] = []
        self.limit = MAX_SPANS
        self.unknown = unknown
        self.keeps_length = keeps_length
        self.given: list[str] = []

    def mark(self, span: str) -> str:
        """Adds a span and returns its marker. There must be fewer than MAX_SPANS spans before."""
        self.spans.append(span)
        return chr(FIRST_MARKER + len(self.spans) - 1)

    def protect(self, text: str, unknown: Sequence[Span] | None = None) -> str:
        """Returns a text with markers; spans beyond the limit stay as they are.

        Quotes and dashes that the vocabulary does not have are replaced by plain ones.

        Args:
            unknown: The unknown spans of the text, if they are known already.
        """
        self.given.append(text)
        if unknown is None:
            unknown = self.unknown(text)
        characters = {char for span in unknown for char in text[slice(*span)]}
        given, plain = text, folded(text, characters, self.keeps_length)
        if plain != text:
            text, unknown = plain, self.unknown(plain)
        found = _find(text, unknown)
        if not found:
            return text
        if len(given) == len(text):
            found = _ranges(found, given)
        else:
            given = text
        parts: list[str] = []
        end = 0
        for first, last in found:
            if len(self.spans) >= self.limit:
                break
            parts += (text[end:first], self.mark(given[first:last]))
            end = last
        return "".join([*parts, text[end:]])

    def typography(self) -> Typography | None:
        """Returns the style of the parts; None if it is plain."""
        text = "".join(self.given)
        return None if text.isascii() else Typography.of(text)


def protect(
    text: str, unknown: UnknownSpans = all_known, keeps_length: bool = False
) -> ProtectedText:
    """Puts a marker in place of each span that a model must not change.

    `keeps_length` is necessary if the places in the text must stay valid.
    """
    found = unknown(text)
    if not (found or _has_syntax(text) or has_signs(text) or values.TRIGGER.search(text)):
        return ProtectedText(text, ())
    marking = Marking(unknown, keeps_length)
    marked = marking.protect(text, found)
    spans = tuple(marking.spans)
    return ProtectedText(marked, spans, marking.typography(), _pairs(spans))


def _pairs(spans: Sequence[str]) -> dict[str, str]:
    pairs: dict[str, str] = {}
    opened: dict[str, list[str]] = {}
    for number, span in enumerate(spans):
        marker = chr(FIRST_MARKER + number)
        tags = [*_TAG.finditer(span)]  # adjacent tags are one span; the innermost counts
        if tags and "".join(each[0] for each in tags) == span:
            found = tags[0] if tags[0][1] else tags[-1]
            name, is_end = found[2], bool(found[1])
        elif set(span) <= _EMPHASIS_MARKS:
            name, is_end = span, bool(opened.get(span))
        else:
            name, is_end = _BRACKETS.get(span, span), span not in _BRACKETS
        if not is_end:
            opened.setdefault(name, []).append(marker)
        elif waiting := opened.get(name):
            pairs[waiting.pop()] = marker
    return pairs


def _has_syntax(text: str) -> bool:
    if _MAY_HAVE_SYNTAX.search(text):
        return True
    for word in WORDS:  # a loop is faster than any() with a generator
        if word in text:
            return True
    return False


def _find(text: str, unknown: Sequence[Span]) -> list[Span]:
    """Returns the protected spans in order; unknown words are between the other spans."""
    found = [match.span() for match in _SYNTAXES.finditer(text)] if _has_syntax(text) else []
    if has_signs(text):
        found += [match.span() for match in SIGNS.finditer(text)]
    if values.TRIGGER.search(text):
        found += [match.span() for match in values.VALUE.finditer(text)]
    if _EMPHASIS_TRIGGER.search(text):
        found += _emphasis(text)
    known = merged(sorted(found))
    if not unknown:
        return known
    parts: list[str] = []
    end = 0
    for first, last in unknown:
        parts += (text[end:first], *map(_kind, text[first:last]))
        end = last
    marked = "".join([*parts, text[end:]])
    starts = [0, *(last for _, last in known)]
    ends = [*(first for first, _ in known), len(text)]
    for start, stop in zip(starts, ends, strict=True):
        known += [match.span() for match in _UNKNOWN_WORD.finditer(marked, start, stop)]
    return sorted(known)


def _kind(char: str) -> str:
    is_letter = char.isalnum() or unicodedata.category(char)[0] == "M"
    return _LETTER if is_letter else _KINDS.get(char, _JOINING)


def _emphasis(text: str) -> Iterator[Span]:
    for match in _EMPHASIS.finditer(text):
        yield match.span("mark")
        yield match.span("end")


def _ranges(spans: Sequence[Span], text: str) -> list[Span]:
    """Joins spans with only a typographic dash between them: `10 °C–15 °C` is one span."""
    joined: list[Span] = []
    for first, last in spans:
        if joined and first == joined[-1][1] + 1 and text[first - 1] in DASHES:
            first, _ = joined.pop()
        joined.append((first, last))
    return joined


def merged(spans: Iterable[Span]) -> list[Span]:
    """Returns the union of spans; spans that overlap or touch become one."""
    merged: list[Span] = []
    for first, last in spans:
        if merged and first <= merged[-1][1]:
            merged[-1] = merged[-1][0], max(merged[-1][1], last)
        else:
            merged.append((first, last))
    return merged
