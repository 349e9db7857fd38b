"""Protects the parts of a text that a model would damage: placeholders, URLs, markup, symbols.

Each such span is replaced by one marker, a private-use character, before the text is split into
sentences. A span has a certain form (`{name}`, `%s`, `https://...`, an amount, an emoji), or a
character that the model's vocabulary does not have. `carriage.py` carries the spans through the
model.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Self

from service.text.letters import UNSPACED, Span, has_words

FIRST_MARKER = 0xF0000
# Largest number of spans of a text. Each needs a private-use character from FIRST_MARKER on.
MAX_SPANS = 0x10FFFD - FIRST_MARKER

MARKER = re.compile("[\U000f0000-\U0010fffd]")

# Ends of the domains that are protected without `www.` or a scheme.
_TOP_LEVEL = "com|org|net|io|dev|gov|edu|info|app"

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

_JOINERS = "\ufe0f\u200d\u20e3\U0001f3fb-\U0001f3ff\U000e0020-\U000e007f"

# Stands for an unknown character in the search for unknown words. It is no character.
_UNKNOWN = "\uffff"

# The letters and digits that touch an unknown character belong to its span: `Erdoğan`, `€50`, `<3`.
# In a script without spaces, the character is a span alone.
_UNKNOWN_WORD = re.compile(
    rf"(?<![^\W{UNSPACED}])(?<!['-])(?:[^\W{UNSPACED}]|['-])*"
    rf"{_UNKNOWN}(?:[^\W{UNSPACED}]|[{_UNKNOWN}{_JOINERS}'-]|[.,](?=\d))*"
)

_SYMBOLS = (
    "\u2120\u2122\u2190-\u21ff\u2300-\u23ff\u2460-\u24ff\u25a0-\u27bf\u2b00-\u2bff\U0001f000-\U0001faff"
    "\ue000-\uf8ff\U000f0000-\U0010fffd"
)

# Trade marks, arrows, emoji and private-use characters, which no model copies.
_PICTOGRAMS = re.compile(f"[{_SYMBOLS}][{_SYMBOLS}{_JOINERS}]*")

# Pattern that is faster than `_FORMS`. A text without a match is not searched with `_FORMS`.
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

# Superscripts and subscripts. Normalisers of vocabularies replace them by plain characters.
_SCRIPTS = "\u00b2\u00b3\u00b9\u2070\u2071\u2074-\u208e\u2090-\u209c\u02b0-\u02b8"

_CURRENCIES = "$€£¥₹₩₽₺₫₪₴₦₱฿"
_CODES = (
    "AED|ARS|AUD|BRL|CAD|CHF|CLP|CNY|COP|CZK|DKK|EUR|GBP|HKD|HUF|IDR|ILS|INR|JPY|KRW|MXN|MYR|NGN"
    "|NOK|NZD|PEN|PHP|PLN|RON|RUB|SAR|SEK|SGD|THB|TRY|TWD|UAH|USD|UYU|VND|ZAR"
)
_SPACE = "[ \u00a0\u202f]?"
_NUMBER_SIGN = "[-+\u2212]?"
_GROUP = "[.,'\u2019 \u00a0\u202f]\\d{2,3}"  # In India, groups have two digits.
_ALONE = r"(?!\d|[.,]\d)"
_EXACT = (  # the number of `$1.5 million` is rounded, and the model localises it
    rf"{_ALONE}(?!{_SPACE}-?(?:thousand|million|billion|trillion|mil|milh|bilh|trilh|mio|mrd|mn|bn"
    r"|[kKmM]\b))"
)
_OCTET = r"(?:25[0-5]|2[0-4]\d|1\d\d|\d{1,2})"
_ID_PART = r"(?:[A-Z]{1,6}(?![A-Za-z0-9])|[A-Za-z]{0,64}\d[A-Za-z0-9]*+)"
_BASE = rf"[^\W_{_SCRIPTS}]"

_UUID = r"(?<![\w-])[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}(?!\w)"

_AMOUNTS = (
    # R$ 50, US$ 1,234.56
    rf"(?<![\w{_CURRENCIES}])[A-Z]{{1,3}}[{_CURRENCIES}]{_SPACE}{_NUMBER_SIGN}\d{{1,15}}(?:{_GROUP}){{0,7}}+"
    rf"{_EXACT}",
    # $1,234.56, EUR 1.234
    rf"(?<![\w{_CURRENCIES}])(?:[{_CURRENCIES}]|(?=[A-Z]{{3}}(?![A-Za-z]))(?:{_CODES})|Fr\.|kr\.?){_SPACE}{_NUMBER_SIGN}\d{{1,15}}"
    rf"(?:{_GROUP}){{1,7}}+{_EXACT}",
    # IBAN
    r"(?<!\w)[A-Z]{2}\d\d(?: [A-Z0-9]{4}){2,7}(?: [A-Z0-9]{1,3})?(?!\w)",
)

_NUMBERS = (
    # 1.234,56 €
    rf"(?<![\w.,]){_NUMBER_SIGN}\d{{1,15}}(?:{_GROUP}){{1,7}}+{_ALONE}{_SPACE}"
    rf"(?:[A-Z]{{0,3}}[{_CURRENCIES}](?!\d)|(?:{_CODES}|zł|kr|Kč|Ft|lei)(?!\w))",
    # 2024-01-15, 2024-01-15T10:30:00Z
    r"(?<![\w.-])\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:[.,]\d{1,9})?)?"
    r"(?: ?(?:Z|[-+]\d\d:?\d\d))?)?(?!\w)",
    # 10:30:45.123
    r"(?<![\w:])\d{1,2}:\d\d:\d\d(?:[.,]\d{1,9})?(?![\w:])",
    # 15/01/2024
    r"(?<![\w/])\d{1,4}/\d{1,2}/\d{1,4}(?![\w/])",
    # +55 (11) 91234-5678
    r"(?<!\w)\+\d{1,3}[ -]?(?:\(\d{1,4}\)[ -]?)?\d{2,5}(?:[ -]\d{2,5}){1,4}(?!\w)",
    # 4111 1111 1111 1111
    r"(?<![\w.-])\d{4}([ -])\d{4}(?:\1\d{4}){1,3}(?:\1\d{1,3})?(?![\w-])",
    # 192.168.100.200:80
    rf"(?<![\w.]){_OCTET}(?:\.{_OCTET}){{3}}(?::\d{{1,5}}|/\d{{1,2}})?(?![\w.]\w)",
    # -23.55052, -46.63331
    rf"(?<![\w.,]){_NUMBER_SIGN}\d{{1,3}}[.,]\d{{3,15}}\s?[,;]\s?{_NUMBER_SIGN}\d{{1,3}}[.,]\d{{4,15}}(?!\d)",
    # 3.14159
    rf"(?<![\w.,]){_NUMBER_SIGN}\d{{1,15}}[.,]\d{{4,30}}(?![\w.,]\d)",
    # 40°26′46″
    r"(?<!\w)\d{1,3}° ?\d{1,2}['′’](?: ?\d{1,2}(?:[.,]\d{1,4})?[\"″”])?",
    # 978-3-16-148410-0, 123.456.789-09, 2.13.0; but not 1.234.567 and 1914-1918
    r"(?<![\w.-])(?!\d{1,3}(?:\.\d{3}){1,7}(?![.\w-]\w))(?!\d{1,4}-\d{1,4}(?!-))"
    r"\d{1,7}(?:[.-]\d{1,7}){2,7}(?!\w)",
)

_OTHERS = (
    # AB12345678, INV-2024-00123, hashes; but not 1990s-2000s and 12000-seat
    r"(?<![\w-])(?=(?:[A-Za-z_/.-]{0,64}\d){5})(?!\d{3,4}s\b)(?!\d++(?:[-/.]\d++){0,15}+(?!\w))"
    rf"{_ID_PART}(?:[-_/.]{_ID_PART}){{0,15}}+(?!\w)",
    # 1234567
    r"(?<!\w)\d{7,}+(?!\w)",
    # 6 × 10⁵¹, H₂O, km²; a longer word has a footnote (`word¹`)
    rf"(?:(?<![\w.,])\d[\d.,]{{0,31}}{_SPACE}[×x·⋅*]{_SPACE})?(?<!\w)"
    rf"(?:{_BASE}{{3,8}}+(?=[\u207b\u2080-\u209c])|{_BASE}{{0,2}}+)[{_SCRIPTS}]++"
    rf"(?:{_BASE}{{0,2}}+[{_SCRIPTS}]++){{0,31}}[^\W_]{{0,2}}+(?![^\W_])",
)

# Values that a model must copy exactly: amounts, ids, coordinates, times, exponents. Models
# localise short numbers well: `1,500` becomes `1.500`. In long ones they lose digits, and they
# replace `R$ 50` by `$50`. So amounts of money are values. A number of at least five digits is a
# value if all languages share its form, such as a hash or an IBAN. Other numbers, and amounts such
# as `$1.5 million`, are left to the model.
#
# The lookaheads leave out, at most places of a text, alternatives that cannot begin there.
_VALUES = re.compile(
    rf"(?<!\w)(?:(?=[A-Zk{_CURRENCIES}])(?:{'|'.join(_AMOUNTS)})"
    rf"|(?=[0-9A-Fa-f]{{8}}-){_UUID}"
    rf"|(?=[\d+\-\u2212])(?:{'|'.join(_NUMBERS)})"
    rf"|(?=\w)(?:{'|'.join(_OTHERS)}))"
    rf"|[{_SCRIPTS}]++"  # the mark of a footnote
)

_WORD_REST = re.compile(r"\w*+")

VALUE_WINDOW_CHARS = 1024
MAX_VALUE_CHARS = 256

# Pattern that is faster than `_VALUES`. A text without a match has no value.
_VALUE_TRIGGER = re.compile(
    rf"""
    [0-9{_CURRENCIES}{_SCRIPTS}]
    (?: (?<=[{_CURRENCIES}]){_SPACE}{_NUMBER_SIGN}[0-9]
      | (?<=[{_SCRIPTS}])
      | (?<=[0-9])(?:(?:[^\w\s]?\s?\w?[0-9]){{4}}|[0-9A-Fa-f]{{7}})
    )
    """,
    re.VERBOSE,
)

# Maps each typographic quote, hyphen or dash to the plain character that replaces it if the
# vocabulary does not have it.
FOLDED = str.maketrans(
    "\u2018\u2019\u201a\u201c\u201d\u201e\u00ab\u00bb\u2010\u2011\u2013\u2014\u2212",
    '\'\'\'"""""-----',
)


@dataclass(frozen=True, slots=True)
class ProtectedText:
    """A text whose protected spans are replaced by markers.

    Marker n, chr(FIRST_MARKER + n), stands for spans[n].
    """

    text: str
    spans: tuple[str, ...]

    def span(self, marker: str) -> str:
        return self.spans[ord(marker) - FIRST_MARKER]

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
        """Returns whether the order of the markers in a translation is accepted: every order."""
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

    def __init__(self, unknown: UnknownSpans) -> None:
        self.spans: list[str] = []
        self.limit = MAX_SPANS
        self.unknown = unknown

    def mark(self, span: str) -> str:
        """Adds a span and returns its marker. There must be fewer than MAX_SPANS spans before."""
        self.spans.append(span)
        return chr(FIRST_MARKER + len(self.spans) - 1)

    def protect(self, text: str) -> str:
        """Returns a text with markers; spans beyond the limit stay as they are.

        Quotes and dashes that the vocabulary does not have are replaced by plain ones.
        """
        unknown = self.unknown(text)
        characters = {char for span in unknown for char in text[slice(*span)]}
        if folds := {ord(char): FOLDED[ord(char)] for char in characters if ord(char) in FOLDED}:
            text = text.translate(folds)
            unknown = self.unknown(text)
        found = _find(text, unknown)
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


def protect(text: str, unknown: UnknownSpans = all_known) -> ProtectedText:
    """Puts a marker in place of each span that a model must not change."""
    is_plain = text.isascii() or not _PICTOGRAMS.search(text)  # no pictogram is ASCII
    if is_plain and not (_TRIGGER.search(text) or _VALUE_TRIGGER.search(text) or unknown(text)):
        return ProtectedText(text, ())
    marking = Marking(unknown)
    marked = marking.protect(text)
    return ProtectedText(marked, tuple(marking.spans))


def _find(text: str, unknown: Sequence[Span]) -> list[Span]:
    """Returns the protected spans in order; unknown words are between the other spans."""
    found = [match.span() for match in _FORMS.finditer(text)] if _TRIGGER.search(text) else []
    found += [match.span() for match in _PICTOGRAMS.finditer(text)]
    if _VALUE_TRIGGER.search(text):
        found += _find_values(text)
    known = merged(sorted(found))
    if not unknown:
        return known
    parts: list[str] = []
    end = 0
    for first, last in unknown:
        parts += (text[end:first], _UNKNOWN * (last - first))
        end = last
    marked = "".join([*parts, text[end:]])
    starts = [0, *(last for _, last in known)]
    ends = [*(first for first, _ in known), len(text)]
    for start, stop in zip(starts, ends, strict=True):
        known += [match.span() for match in _UNKNOWN_WORD.finditer(marked, start, stop)]
    return sorted(known)


def _find_values(text: str) -> Iterator[Span]:
    """Yields the spans of values.

    A search holds the lock of the interpreter. A long text is therefore searched in windows, which
    overlap by the length of a value. The end of a longer value is found apart.
    """
    begin = 0
    while begin < len(text):
        end = begin + VALUE_WINDOW_CHARS
        begin, first, limit = end, begin, end + MAX_VALUE_CHARS
        for match in _VALUES.finditer(text, first, limit):
            if match.start() >= end:
                break
            last = match.end()
            if last == limit and (rest := _WORD_REST.match(text, last)):
                last = rest.end()
            yield match.start(), last
            begin = max(end, last)


def merged(spans: Iterable[Span]) -> list[Span]:
    """Returns the union of spans; spans that overlap or touch become one."""
    merged: list[Span] = []
    for first, last in spans:
        if merged and first <= merged[-1][1]:
            merged[-1] = merged[-1][0], max(merged[-1][1], last)
        else:
            merged.append((first, last))
    return merged
