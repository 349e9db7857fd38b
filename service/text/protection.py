"""Protects the parts of a text that a model would damage: placeholders, URLs, markup, symbols.

Each such span is replaced by one marker, a private-use character, before the text is split into
sentences. A span is found by its form (`{name}`, `%s`, `https://...`, an emoji), or because it has
a character that the model's vocabulary does not have. `stand_ins.py` carries the spans through the
model.
"""

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Self

from service.text.letters import has_words

FIRST_MARKER = 0xF0000
MAX_SPANS = 0x10FFFD - FIRST_MARKER
"""Largest number of spans of a text. Each needs a private-use character from FIRST_MARKER on."""

MARKER = re.compile("[\U000f0000-\U0010fffd]")

_TOP_LEVEL = "com|org|net|io|dev|gov|edu|info|app"
"""Ends of the domains that are protected without `www.` or a scheme."""

_FORMS = re.compile(
    r"""
      \{\{[^{}]*\}\} | \{%[^{}]*%\}                                # templates: {{ name }}
    | [$\#]?\{ (?: [^{}] | \{ (?: [^{}] | \{[^{}]*\} )* \} )* \}  # {name}, ${name}, ICU messages
    | <!--[^<>]*--> | </?[A-Za-z][^<>]*> | </?\d+\s*/?>          # markup: <b>, <x id="1"/>, <0>
    | `[^`\n]+`                                                   # code
    | (?<=\])\((?:[^()\s]|\([^()\s]*\))+(?:\)|(?=\s(?:"[^"\n]*"|'[^'\n]*')\)))
                                                                # links: [text](target "title")
    | (?<=\])\[[a-z0-9][a-z0-9._-]*\]                            # links: [text][name]
    | &(?:\w+|\#\d+|\#x[0-9A-Fa-f]+);                             # entities: &nbsp;
    | (?:https?|ftp|file)://[^\s<>"]*[^\s<>".,;:!?'()\[\]{}]      # URLs
    | (?<!\w)(?:www\.|mailto:)[^\s<>"]*[^\s<>".,;:!?'()\[\]{}]
    | (?<![\w.+-])[\w.+-]+@[\w-]+(?:\.[\w-]+)+                    # e-mail addresses
    | (?<![\w.-])(?:[A-Za-z0-9-]+\.)+(?:"""
    + _TOP_LEVEL
    + r""")  # domains
      (?:/[\w./?=&\#-]*\w)?(?!\w)
    | (?<![\d%])%(?:\(\w+\)|\d+\$)?[-+0\#]*+\d*+(?:\.\d+)?             # printf: %s, %(name)d
      (?:hh?|ll?|[Lzjt])?[diouxXeEfgGcrsa@](?![A-Za-z])
    | (?<!\w)\$[A-Za-z_]\w*                                       # variables: $name
    | \[[A-Z]*[0-9_][A-Z0-9_]*\]                              # in brackets: [X7X], [1]
    | (?<=\s):[a-z]+(?:_[a-z]+)*\b                                # :name
    | (?<![\w/])~?/(?:[\w.-]+/)+[\w.-]*\w | \b[A-Za-z]:\\[\w\\.-]*  # paths
    | (?<!\w)[\#@]\w[\w-]*                                        # hashtags and mentions: #tag
    | (?:-?\d[\d.,]{0,31}\s?)?°[CFK]?(?!\w) | (?<!\d)(?<!\d\s)%(?!\w)   # 25 °C, a lone %
    | \b_*[^\W_]+(?:_+[^\W_]+)+_*\b | \b__\w+__\b                 # names in code: max_size
    """,
    re.VERBOSE | re.DOTALL,
)

_SYMBOLS = (
    "\u2190-\u21ff\u2300-\u23ff\u2460-\u24ff\u25a0-\u27bf\u2b00-\u2bff\U0001f000-\U0001faff"
    "\ue000-\uf8ff\U000f0000-\U0010fffd"
)
_JOINERS = "\ufe0f\u200d\u20e3\U0001f3fb-\U0001f3ff\U000e0020-\U000e007f"

_PICTOGRAMS = re.compile(f"[{_SYMBOLS}][{_SYMBOLS}{_JOINERS}]*")
"""Arrows, emoji and private-use characters, which no model copies."""

_TRIGGER = re.compile(
    r"""
    [{}<>\[\]`@_\#°%:/$&.]
    (?: (?<=[^%:/$&.])
      | (?<=[%:])(?<!\d.)           # not in 50% and 11:00
      | (?<=/)(?<!\w.)              # not in km/h
      | (?<=\$)[A-Za-z_] | (?<=&)[\w\#]
      | (?<=www\.) | (?<=\.)(?:"""
    + _TOP_LEVEL
    + r""")
    )
    """,
    re.VERBOSE,
)
"""Pattern that is faster than `_FORMS`. A text without a match is not searched with `_FORMS`."""

FOLDED = str.maketrans(
    "\u2018\u2019\u201a\u201c\u201d\u201e\u00ab\u00bb\u2010\u2011\u2013\u2014\u2212",
    '\'\'\'"""""-----',
)
"""Maps each typographic quote, hyphen or dash to a plain character.

If the vocabulary does not have the typographic character, the plain one replaces it.
"""


@dataclass(frozen=True, slots=True)
class ProtectedText:
    """A text whose protected spans are replaced by markers.

    Attributes:
        text: The text with one marker for each span.
        spans: The spans; marker n, chr(FIRST_MARKER + n), stands for spans[n].
    """

    text: str
    spans: tuple[str, ...]

    def span(self, marker: str) -> str:
        """Returns the span of a marker."""
        return self.spans[ord(marker) - FIRST_MARKER]

    def restore(self, text: str) -> str:
        """Returns a text with the spans in place of their markers."""
        if not self.spans:
            return text
        return MARKER.sub(lambda found: self.span(found[0]), text)

    def extended(self, spans: Sequence[str]) -> Self:
        """Returns a copy with more spans. The caller puts their markers into the sentences."""
        return replace(self, spans=(*self.spans, *spans))

    def may_move(self, marker: str) -> bool:
        """Returns whether a marker at an end of a sentence may move to the separator beside it.

        The marker may move if its span has no letters or digits: for example, an emoji.
        """
        return not has_words(self.span(marker))

    def keeps_order(self, text: str) -> bool:
        """Returns whether the order of the markers in a translated sentence is accepted.

        A plain text accepts every order; `service.text.markup.MarkupText` overrides this
        method.
        """
        return True


class Marking:
    """Replaces spans of a text, or of several parts of a text, by markers.

    Args:
        unknown: The characters of the text that the model's vocabulary does not have.

    Attributes:
        spans: The spans so far, in order.
        limit: `protect` adds no span once there are this many spans.
    """

    def __init__(self, unknown: Collection[str]) -> None:
        self.spans: list[str] = []
        self.limit = MAX_SPANS
        folded = {char for char in unknown if ord(char) in FOLDED}
        self.folds = {ord(char): FOLDED[ord(char)] for char in folded}
        self.rare = _rare(set(unknown) - folded)

    def mark(self, span: str) -> str:
        """Adds a span and returns its marker. There must be fewer than MAX_SPANS spans before."""
        self.spans.append(span)
        return chr(FIRST_MARKER + len(self.spans) - 1)

    def protect(self, text: str) -> str:
        """Returns a text with markers; spans beyond the limit stay as they are.

        Quotes and dashes that the vocabulary does not have are replaced by plain ones.
        """
        if self.folds:
            text = text.translate(self.folds)
        found = _find(text, self.rare)
        if not found:
            return text
        parts: list[str] = []
        end = 0
        for first, last in found:
            if len(self.spans) >= self.limit:
                break
            parts += (text[end:first], self.mark(text[first:last]))
            end = last
        return "".join([*parts, text[end:]])


def protect(text: str, unknown: Collection[str]) -> ProtectedText:
    """Puts a marker in place of each span that a model must not change.

    Args:
        text: Any text.
        unknown: The characters of the text that the model's vocabulary does not have.
    """
    is_plain = text.isascii() or not _PICTOGRAMS.search(text)  # no pictogram is ASCII
    if is_plain and not unknown and not _TRIGGER.search(text):
        return ProtectedText(text, ())
    marking = Marking(unknown)
    marked = marking.protect(text)
    return ProtectedText(marked, tuple(marking.spans))


def _rare(unknown: Collection[str]) -> re.Pattern[str] | None:
    """Returns the pattern of spans with unknown characters; None if no character is unknown.

    An unknown letter protects its whole word: `Erdoğan`. An unknown symbol protects the letters and
    digits that touch it: `€50`, `<3`.
    """
    letters = "".join(re.escape(char) for char in unknown if not char.isspace())
    if not letters:
        return None
    return re.compile(rf"(?<![\w'-])[\w'-]*[{letters}](?:[\w{letters}{_JOINERS}'-]|[.,](?=\d))*")


def _find(text: str, rare: re.Pattern[str] | None) -> list[tuple[int, int]]:
    """Returns the spans in order.

    The pattern `rare` is applied only to the text between the spans that other patterns match.
    """
    found = [match.span() for match in _FORMS.finditer(text)] if _TRIGGER.search(text) else []
    found += [match.span() for match in _PICTOGRAMS.finditer(text)]
    known = list(_merged(sorted(found)))
    if rare is None:
        return known
    starts = [0, *(last for _, last in known)]
    ends = [*(first for first, _ in known), len(text)]
    for start, end in zip(starts, ends, strict=True):
        known += [match.span() for match in rare.finditer(text, start, end)]
    return sorted(known)


def _merged(spans: list[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Yields the union of spans; spans that overlap or touch become one."""
    current: tuple[int, int] | None = None
    for first, last in spans:
        if current is not None and first <= current[1]:
            current = current[0], max(current[1], last)
            continue
        if current is not None:
            yield current
        current = first, last
    if current is not None:
        yield current
